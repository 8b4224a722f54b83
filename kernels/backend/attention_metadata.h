/*
 * attention_metadata - lays out a step in plain memory: the place of each token, and its angles.
 *
 * Thread: as attention.h.
 */
#pragma once

#include "kernels/attention.h"

/* Runs on the caller. A back end that needs a workspace stores it in metadata->workspace. */
MUST_CHECK enum status attention_metadata_create(const struct attention_limits *limits,
                                                 struct thread_pool *pool,
                                                 struct attention_metadata **metadata_out,
                                                 struct error *error);
void attention_metadata_destroy(struct attention_metadata *metadata);
MUST_CHECK enum status attention_metadata_prepare(struct attention_metadata *metadata,
                                                  const struct attention_step *step,
                                                  const struct kv_view *kv, struct error *error);
MUST_CHECK enum status attention_metadata_make_static(struct attention_metadata *metadata,
                                                      uint32_t n_generations, uint32_t n_query,
                                                      struct error *error);
size_t attention_metadata_arena_bytes(const struct attention_metadata *metadata);
void attention_metadata_use_arena(struct attention_metadata *metadata, void *base);

/* The numbers of sequences and of new keys without the dummies: only these are computed. */
static inline uint32_t metadata_n_real_sequences(const struct attention_metadata *metadata)
{
    return metadata->n_sequences - metadata->n_dummies;
}
static inline uint32_t metadata_n_real_keys(const struct attention_metadata *metadata)
{
    bool is_self = metadata->limits.keys == KEYS_SELF;
    return metadata->n_kv_tokens - (is_self ? metadata->n_dummies * metadata->n_static_query : 0);
}

/* Writes the sentence of NO_MEMORY and returns it. */
enum status attention_metadata_no_memory(const struct attention_limits *limits,
                                         struct error *error);
