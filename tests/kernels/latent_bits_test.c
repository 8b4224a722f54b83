/* latent: a sequence has the same bits however it is divided into steps, in whatever company, with any size of blocks, with threads
 * and on every set; and a row of NaN reaches only the tokens that see it. */
#include "base/thread_pool.h"
#include "tests/kernels/support/latent_world.h"
#include "tests/kernels/support/rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { NOBODY = LATENT_WORLD_SEQUENCES };

static struct latent_world world_of(uint32_t n_heads, enum dtype cache)
{
    return (struct latent_world){.config = {.n_heads = n_heads,
                                            .latent_dim = 32,
                                            .rope_dim = 8,
                                            .cache = cache,
                                            .scale = 0.3f},
                                 .cache_scale = 0.02f,
                                 .block_tokens = 32,
                                 .lens = {600, 65, 1, 300},
                                 .query_max = 90,
                                 .nan_sequence = NOBODY};
}

static void assert_sequence(const struct latent_world *world, uint32_t sequence, const float *got,
                            const float *expected, const char *what)
{
    const size_t first = latent_world_output(world, sequence);
    const size_t n = latent_world_output(world, sequence + 1) - first;
    cr_assert_arr_eq(got + first, expected + first, n * sizeof *got, "%s: sequence %u", what,
                     sequence);
}

static void assert_all(const struct latent_world *world, const float *got, const float *expected,
                       const char *what)
{
    for (uint32_t s = 0; s < LATENT_WORLD_SEQUENCES; s++)
        assert_sequence(world, s, got, expected, what);
}

static void check_variants(const struct kernels *kernels, const struct latent_world *world,
                           struct thread_pool *pool, const float *whole)
{
    char what[80];
    for (uint32_t i = 0; i < 5; i++) {
        struct latent_world other = *world;
        other.block_tokens = 8u << i;
        other.seed = i;
        float *got = latent_world_run(&other, kernels, i % 2 ? pool : NULL);
        snprintf(what, sizeof what, "%s, blocks of %u, seed %u", kernels->name, other.block_tokens,
                 i);
        assert_all(world, got, whole, what);
        free(got);
    }
    for (uint32_t s = 0; s < LATENT_WORLD_SEQUENCES; s += 3) {
        struct latent_world alone = *world;
        alone.company = 1u << s;
        alone.seed = s;
        alone.query_max = 3 + s;
        float *got = latent_world_run(&alone, kernels, pool);
        snprintf(what, sizeof what, "%s, alone", kernels->name);
        assert_sequence(world, s, got, whole, what);
        free(got);
    }
}

static void check_sets(const struct latent_world *world, struct thread_pool *pool)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    float *common = NULL;
    for (uint32_t k = 1; k < n_list;
         k++) { /* without the reference: it is slow, and has one way for all */
        float *whole = latent_world_run(world, list[k], pool);
        if (has_common_bits(list[k]) && common)
            assert_all(world, whole, common, list[k]->name);
        if (!common || list[k]->latent != list[k - 1]->latent)
            check_variants(list[k], world, pool, whole);
        if (has_common_bits(list[k]) && !common)
            common = whole;
        else
            free(whole);
    }
    free(common);
}

Test(latent_bits, steps_company_blocks_threads_and_sets_change_no_bit)
{
    static const struct {
        uint32_t n_heads;
        enum dtype cache;
    } cases[] = {
        {1, DTYPE_F32}, {7, DTYPE_BF16}, {18, DTYPE_F16}, {3, DTYPE_INT8}, {5, DTYPE_E4M3}};
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct latent_world world = world_of(cases[i].n_heads, cases[i].cache);
        check_sets(&world, pool);
    }
    thread_pool_destroy(pool);
}

Test(latent_bits, a_NaN_reaches_only_the_tokens_that_see_it)
{
    enum { BAD = 1, TOKEN = 40 };
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++) {
        struct latent_world world = world_of(7, DTYPE_BF16);
        world.lens[0] = 20;
        world.lens[3] = 33;
        const size_t first = latent_world_output(&world, BAD), n = (size_t)7 * 32;
        float *good = latent_world_run(&world, list[k], NULL);
        world.nan_sequence = BAD;
        world.nan_token = TOKEN;
        float *bad = latent_world_run(&world, list[k], NULL);
        for (size_t i = TOKEN * n; i < world.lens[BAD] * n; i++)
            cr_assert(isnan(bad[first + i]), "%s: output %zu", list[k]->name, i);
        memcpy(bad + first + TOKEN * n, good + first + TOKEN * n,
               (world.lens[BAD] - TOKEN) * n * sizeof *bad);
        assert_all(&world, bad, good, list[k]->name);
        free(good);
        free(bad);
    }
}
