/* latent: every set computes the formula of kernels/latent.h, as float64 does, for each type of cache. */
#include "tests/kernels/support/latent_world.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(latent, .description = ONE_THREAD);

enum { NOBODY = LATENT_WORLD_SEQUENCES };

#define COUNT(array) (sizeof array / sizeof array[0])

/* The rows of a sequence as the cache has them. */
static double *cached_rows(const struct latent_world *world, uint32_t sequence)
{
    const uint32_t width = world->config.latent_dim + world->config.rope_dim;
    const float unit = dtype_is_8bit(world->config.cache) ? world->cache_scale : 1;
    double *rows = malloc((size_t)world->lens[sequence] * width * sizeof *rows);
    float row[LATENT_DIM_MAX + LATENT_ROPE_DIM_MAX];
    for (uint32_t t = 0; t < world->lens[sequence]; t++) {
        latent_world_row(world, sequence, t, row);
        for (uint32_t i = 0; i < width; i++) {
            char stored[4];
            dtype_store(world->config.cache, stored, 0, row[i] / unit);
            rows[(size_t)t * width + i] = (double)dtype_load(world->config.cache, stored, 0) *
                                          (double)unit;
        }
    }
    return rows;
}

static void expected_head(const struct latent_world *world, const double *rows, const float *q,
                          uint32_t n_keys, float *output)
{
    const uint32_t n = world->config.latent_dim, width = n + world->config.rope_dim;
    double *weights = malloc(n_keys * sizeof *weights), total = 0, largest = -INFINITY;
    for (uint32_t key = 0; key < n_keys; key++) {
        weights[key] = 0;
        for (uint32_t i = 0; i < width; i++)
            weights[key] += (double)q[i] * rows[(size_t)key * width + i];
        weights[key] *= (double)world->config.scale;
        largest = fmax(largest, weights[key]);
    }
    for (uint32_t key = 0; key < n_keys; key++)
        total += weights[key] = exp(weights[key] - largest);
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t key = 0; key < n_keys; key++)
            sum += weights[key] / total * rows[(size_t)key * width + i];
        output[i] = (float)sum;
    }
    free(weights);
}

static float *expected_world(const struct latent_world *world)
{
    const uint32_t n = world->config.latent_dim, width = n + world->config.rope_dim;
    float *output = malloc(latent_world_floats(world) * sizeof *output), *next = output;
    float *q = malloc((size_t)world->config.n_heads * width * sizeof *q);
    for (uint32_t s = 0; s < LATENT_WORLD_SEQUENCES; s++) {
        double *rows = cached_rows(world, s);
        for (uint32_t t = 0; t < world->lens[s]; t++) {
            latent_world_q(world, s, t, q);
            for (uint32_t h = 0; h < world->config.n_heads; h++, next += n)
                expected_head(world, rows, q + (size_t)h * width, t + 1, next);
        }
        free(rows);
    }
    free(q);
    return output;
}

static void check_world(const struct latent_world *world)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    float *expected = expected_world(world);
    for (uint32_t k = 0; k < n_list; k++) {
        float *got = latent_world_run(world, list[k], NULL);
        double worst = values_error(got, expected, latent_world_floats(world));
        cr_assert(worst <= 1e-5, "%s, cache %s, %u heads of %u + %u, blocks of %u: off by %g",
                  list[k]->name, dtype_name(world->config.cache), world->config.n_heads,
                  world->config.latent_dim, world->config.rope_dim, world->block_tokens, worst);
        free(got);
    }
    free(expected);
}

static struct latent_world world_of(uint32_t n_heads, uint32_t latent_dim, uint32_t rope_dim)
{
    return (struct latent_world){.config = {.n_heads = n_heads,
                                            .latent_dim = latent_dim,
                                            .rope_dim = rope_dim,
                                            .scale = 1.5f / sqrtf((float)latent_dim)},
                                 .cache_scale = 0.02f,
                                 .block_tokens = 16,
                                 .lens = {3, 70, 1, 18},
                                 .nan_sequence = NOBODY};
}

Test(latent, every_type_of_cache_is_the_formula_of_its_rounded_rows)
{
    for (enum dtype cache = DTYPE_F32; cache <= DTYPE_E4M3; cache++)
        for (uint32_t half = 0; half < 2; half++) {
            struct latent_world world = world_of(half ? 16 : 3, half ? 48 : 16, half ? 24 : 8);
            world.config.cache = cache;
            world.seed = half;
            check_world(&world);
        }
}

Test(latent, every_number_of_heads_and_size_is_the_formula)
{
    static const struct {
        uint32_t n_heads, latent_dim, rope_dim;
    } sizes[] = {{1, 16, 8}, {2, 64, 16}, {5, 32, 40}, {7, 80, 64}, {33, 16, 16}, {70, 32, 8}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct latent_world world = world_of(sizes[i].n_heads, sizes[i].latent_dim,
                                             sizes[i].rope_dim);
        world.config.cache = (enum dtype)(i % 3);
        world.block_tokens = 8u << i % 5;
        check_world(&world);
    }
}

Test(latent, the_sizes_of_DeepSeek_are_the_formula)
{
    struct latent_world world = world_of(2, 512, 64);
    world.config.cache = DTYPE_BF16;
    check_world(&world);
}

Test(latent, many_tokens_are_the_formula)
{
    struct latent_world world = world_of(2, 16, 8);
    const uint32_t lens[] = {255, 256, 257, 530};
    memcpy(world.lens, lens, sizeof lens);
    check_world(&world);
}
