/*
 * latent_world - whole sequences pushed through one layer of latent attention, in steps of any cut.
 *
 * A token depends on its sequence and its index only. The cache begins as NaN, and has a layer that nothing may touch.
 */
#pragma once

#include "kernels/kernels.h"
#include "kernels/latent.h"

enum { LATENT_WORLD_SEQUENCES = 4 };

struct latent_world {
    struct latent_config config;
    float cache_scale;
    uint32_t block_tokens;
    uint32_t lens[LATENT_WORLD_SEQUENCES];
    uint64_t seed;      /* 0: all tokens in one step; else steps of some tokens of some sequences */
    uint32_t query_max; /* tokens of a sequence in one step; 0: 7 */
    uint32_t company;   /* bit s: sequence s is there; 0: all */
    uint32_t nan_sequence,
        nan_token; /* a row of NaN, if its sequence is below LATENT_WORLD_SEQUENCES */
};

/* The index of a sequence's first output. */
size_t latent_world_output(const struct latent_world *world, uint32_t sequence);
size_t latent_world_floats(const struct latent_world *world);

/* What a token brings: its row of the cache, and q of its heads. */
void latent_world_row(const struct latent_world *world, uint32_t sequence, uint32_t token,
                      float *row_out);
void latent_world_q(const struct latent_world *world, uint32_t sequence, uint32_t token,
                    float *q_out);

/* [sum of lens][n_heads][latent_dim], the caller frees it. Those of absent sequences are NaN. */
float *latent_world_run(const struct latent_world *world, const struct kernels *kernels,
                        struct thread_pool *pool);
