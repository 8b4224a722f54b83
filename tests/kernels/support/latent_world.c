#include "tests/kernels/support/latent_world.h"

#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = LATENT_WORLD_SEQUENCES, QUERY_MAX = 7, LAYERS = 2, GAP = 3 };

/* A run of a world. */
struct progress {
    const struct latent_world *world;
    uint32_t width, done[SEQUENCES], blocks_of[SEQUENCES];
    uint32_t *block_ids[SEQUENCES];
    struct guarded cache;
    struct kv_view kv;
    float *output;
};

size_t latent_world_output(const struct latent_world *world, uint32_t sequence)
{
    size_t first = 0;
    for (uint32_t s = 0; s < sequence; s++)
        first += world->lens[s];
    return first * world->config.n_heads * world->config.latent_dim;
}

size_t latent_world_floats(const struct latent_world *world)
{
    return latent_world_output(world, SEQUENCES);
}

static uint32_t width_of(const struct latent_world *world)
{
    return world->config.latent_dim + world->config.rope_dim;
}

void latent_world_row(const struct latent_world *world, uint32_t sequence, uint32_t token,
                      float *row_out)
{
    const bool is_nan = sequence == world->nan_sequence && token == world->nan_token;
    for (uint32_t i = 0; i < width_of(world); i++)
        row_out[i] = is_nan ? NAN : values_at(20 + sequence, token, i);
}

void latent_world_q(const struct latent_world *world, uint32_t sequence, uint32_t token,
                    float *q_out)
{
    for (uint32_t i = 0; i < world->config.n_heads * width_of(world); i++)
        q_out[i] = values_at(40 + sequence, token, i);
}

/* Blocks of all sequences in turns, the last first. */
static void progress_init(const struct latent_world *world, struct progress *progress)
{
    uint32_t n_blocks = 0, most = 0;
    *progress = (struct progress){.world = world, .width = width_of(world)};
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const uint32_t n = (world->lens[s] + world->block_tokens - 1) / world->block_tokens;
        progress->blocks_of[s] = n;
        progress->block_ids[s] = calloc(n, sizeof(uint32_t));
        n_blocks += n;
        most = n > most ? n : most;
    }
    uint32_t id = n_blocks;
    for (uint32_t i = 0; i < most; i++)
        for (uint32_t s = 0; s < SEQUENCES; s++)
            if (i < progress->blocks_of[s])
                progress->block_ids[s][i] = --id;
    const size_t row = progress->width * dtype_bytes(world->config.cache);
    progress->cache = guarded_create((size_t)n_blocks * LAYERS * world->block_tokens * row);
    progress->kv = latent_view_dense(progress->cache.data, n_blocks, LAYERS, world->block_tokens,
                                     &world->config);
    progress->output = malloc(latent_world_floats(world) * sizeof(float));
    memset(progress->output, 0xff, latent_world_floats(world) * sizeof(float));
}

static void progress_finish(struct progress *progress)
{
    const struct kv_view *kv = &progress->kv;
    for (uint32_t block = 0; block < kv->n_blocks; block++) {
        const unsigned char *layer = (unsigned char *)kv->base + block * kv->block_stride;
        for (uint64_t i = 0; i < kv->layer_stride; i++)
            cr_assert_eq(layer[i], 0xff, "layer 0 of block %u was written", block);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++)
        free(progress->block_ids[s]);
    guarded_destroy(&progress->cache);
}

/* lens: new tokens of each sequence. */
static void step_run(struct progress *progress, const struct latent *latent, const uint32_t *lens)
{
    const struct latent_world *world = progress->world;
    const uint32_t n_q = world->config.n_heads * progress->width;
    const uint32_t n_output = world->config.n_heads * world->config.latent_dim;
    struct latent_sequence sequences[SEQUENCES];
    uint32_t n_rows = 0, row = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        n_rows += lens[s];
        sequences[s] = (struct latent_sequence){lens[s], progress->done[s] + lens[s],
                                                progress->block_ids[s], progress->blocks_of[s]};
    }
    float *rows = malloc((size_t)n_rows * (progress->width + GAP) * sizeof(float));
    float *q = malloc((size_t)n_rows * (n_q + GAP) * sizeof(float));
    struct guarded output = guarded_create((size_t)n_rows * (n_output + GAP) * sizeof(float));
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t t = progress->done[s]; t < progress->done[s] + lens[s]; t++, row++) {
            latent_world_row(world, s, t, rows + (size_t)row * (progress->width + GAP));
            latent_world_q(world, s, t, q + (size_t)row * (n_q + GAP));
        }
    const struct latent_step step = {sequences, SEQUENCES, progress->kv};
    const struct latent_io io = {.layer_index = 1,
                                 .cache_scale = world->cache_scale,
                                 .rows = rows,
                                 .rows_stride = progress->width + GAP,
                                 .q = q,
                                 .q_stride = n_q + GAP,
                                 .output = output.data,
                                 .output_stride = n_output + GAP};
    struct error error = {""};
    cr_assert_eq(latent_check(latent, &step, &io, &error), STATUS_OK, "%s", error.text);
    latent_write(latent, &step, &io);
    latent_attend(latent, &step, &io);
    const float *got = output.data;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        float *to = progress->output + latent_world_output(world, s) +
                    (size_t)progress->done[s] * n_output;
        for (uint32_t t = 0; t < lens[s]; t++, got += n_output + GAP, to += n_output) {
            memcpy(to, got, n_output * sizeof *to);
            for (uint32_t i = 0; i < GAP; i++)
                cr_assert(isnan(got[n_output + i]), "a gap between rows was written");
        }
    }
    guarded_destroy(&output);
    free(rows);
    free(q);
}

float *latent_world_run(const struct latent_world *world, const struct kernels *kernels,
                        struct thread_pool *pool)
{
    struct latent *latent;
    struct error error = {""};
    struct progress progress;
    uint64_t state = world->seed;
    const uint32_t most = world->query_max > 0 ? world->query_max : QUERY_MAX;
    const uint32_t company = world->company > 0 ? world->company : ~0u;
    cr_assert_eq(latent_create(kernels, pool, &world->config, &latent, &error), STATUS_OK, "%s",
                 error.text);
    progress_init(world, &progress);
    for (uint32_t n_left = 1; n_left > 0;) {
        uint32_t lens[SEQUENCES];
        n_left = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            const uint32_t left = company >> s & 1 ? world->lens[s] - progress.done[s] : 0;
            lens[s] = world->seed == 0 ? left : values_below(&state, left < most ? left + 1 : most);
            n_left += left - lens[s];
        }
        step_run(&progress, latent, lens);
        for (uint32_t s = 0; s < SEQUENCES; s++)
            progress.done[s] += lens[s];
    }
    progress_finish(&progress);
    latent_destroy(latent);
    return progress.output;
}
