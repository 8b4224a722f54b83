/*
 * latent_parts - what the back ends of latent share.
 */
#pragma once

#include "kernels/latent.h"

struct latent {
    struct latent_config config;
    const struct kernels *kernels;
    struct thread_pool *pool; /* NULL: none */
    uint32_t n_threads;
    char *
        workspace; /* aligned to 64 bytes; nothing in it outlives a call. NULL: the back end has none */
    size_t workspace_bytes;
};

/* The elements of a row. */
static inline uint32_t latent_width(const struct latent_config *config)
{
    return config->latent_dim + config->rope_dim;
}

/* The row of a token in the cache. */
static inline char *latent_address(const struct kv_view *kv, uint32_t layer_index,
                                   const uint32_t *block_ids, uint32_t token)
{
    return (char *)kv->base + block_ids[token / kv->block_tokens] * kv->block_stride +
           layer_index * kv->layer_stride + token % kv->block_tokens * kv->token_stride;
}
