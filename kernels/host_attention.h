/*
 * host_attention - what every back end that runs on the host shares: judging a configuration, and
 * preparing a step in plain memory.
 *
 * Thread: as attention.h.
 */
#pragma once

#include "kernels/attention.h"

/* The configuration of a layer as the inner loops want it. */
struct host_layer {
    uint32_t layer_index;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t group; /* query heads of one kv head */
    uint32_t window;
    enum dtype cache;
    float scale;
    float norm_eps;
    bool has_q_norm, has_k_norm;
    const struct rope *rope;
    float q_norm[HEAD_DIM_MAX], k_norm[HEAD_DIM_MAX];
};

/* INVALID_ARGUMENT, UNSUPPORTED with a sentence: see attention_backend.create. */
MUST_CHECK enum status host_layer_init(const struct attention_config *config,
                                       struct host_layer *layer_out, struct error *error);

MUST_CHECK enum status host_metadata_create(const struct attention_limits *limits,
                                            struct attention_metadata **metadata_out,
                                            struct error *error);
void host_metadata_destroy(struct attention_metadata *metadata);
MUST_CHECK enum status host_metadata_prepare(struct attention_metadata *metadata,
                                             const struct attention_step *step,
                                             const struct kv_view *kv, struct error *error);

/* A layer and a prepared step that were not made for each other: a programmer's error. */
void host_check_io(const struct host_layer *layer, const struct attention_metadata *metadata,
                   const struct attention_io *io);

/* First byte of K of a token; V is kv_stride further on. */
static inline char *host_kv_token(const struct kv_view *kv, uint32_t layer_index,
                                  const uint32_t *block_ids, uint32_t kv_head, uint32_t position)
{
    uint32_t slot = position & (kv->block_tokens - 1);
    uint32_t index = position / kv->block_tokens;
    return (char *)kv->base + block_ids[index] * kv->block_stride + layer_index * kv->layer_stride +
           kv_head * kv->head_stride + slot * kv->token_stride;
}
