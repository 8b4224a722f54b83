/*
 * world - whole sequences pushed through one attention layer, in steps of any cut.
 *
 * The tokens of a sequence depend on its id and their positions only, so every way to cut them into
 * steps, batches and blocks must give the same output rows.
 */
#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/guarded.h"

enum { WORLD_SEQUENCES_MAX = 12 };

struct world {
    uint64_t seed;
    uint32_t n_heads, n_kv_heads, head_dim;
    enum dtype cache;
    uint32_t window;
    bool has_rope, has_norm;
    uint32_t block_tokens;
    uint32_t chunk_tokens; /* 0: a prompt is one chunk; else a multiple of block_tokens */
    uint32_t n_sequences;
    uint64_t ids[WORLD_SEQUENCES_MAX];
    uint32_t prompt_lens[WORLD_SEQUENCES_MAX]; /* the rest comes in the generation phase */
    uint32_t lens[WORLD_SEQUENCES_MAX];
};

/* [sum of lens][n_heads head_dim], the sequences one after another. */
struct guarded world_run(const struct world *world, const struct kernels *kernels,
                         struct thread_pool *pool);
size_t world_floats(const struct world *world);
/* The world with sequence index alone. */
struct world world_alone(const struct world *world, uint32_t index);
/* One from a number: sizes around tiles, blocks and ranges. */
struct world world_random(uint64_t seed);
