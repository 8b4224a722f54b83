/*
 * kv_address - finds the address of a key in the cache. Its V is kv_stride further on.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/backend/attention_layer.h"

/* The blocks of a beam in the table of the layer. */
const uint32_t *kv_block_ids(const struct attention_config *config,
                             const struct attention_sequence *sequence, uint32_t beam);

/* The first byte of K of a slot. block_ids: those of one beam. */
static inline char *kv_slot_address(const struct kv_view *kv, uint32_t layer_index,
                                    const uint32_t *block_ids, uint32_t kv_head, uint32_t slot)
{
    uint32_t index = kv->is_contiguous ? 0 : slot / kv->block_tokens;
    uint32_t within = kv->is_contiguous ? slot : slot & (kv->block_tokens - 1);
    return (char *)kv->base + block_ids[index] * kv->block_stride + layer_index * kv->layer_stride +
           kv_head * kv->head_stride + within * kv->token_stride;
}

/* Where K of a new key of the step (an index into kv_rows) is written in the cache. */
char *kv_new_key_address(const struct attention_layer *layer,
                         const struct attention_metadata *metadata, uint32_t key, uint32_t kv_head);

/* The address of the key with this index in the cache (0 is the first that the cache holds), as one beam
 * sees it (cyclic slots, cache_source). It takes many parameters: filling a struct for each key would cost time. */
char *kv_key_address(const struct attention_layer *layer, const struct attention_metadata *metadata,
                     uint32_t sequence, uint32_t beam, uint32_t kv_head, uint32_t index);
