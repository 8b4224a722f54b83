#include "kernels/backend/kv_address.h"

#include <assert.h>

const uint32_t *kv_block_ids(const struct attention_config *config,
                             const struct attention_sequence *sequence, uint32_t beam)
{
    const uint32_t n_beams = sequence->n_beams > 1 ? sequence->n_beams : 1;
    return sequence->block_ids + ((size_t)config->table * n_beams + beam) * sequence->n_blocks;
}

char *kv_new_key_address(const struct attention_layer *layer,
                         const struct attention_metadata *metadata, uint32_t key, uint32_t kv_head)
{
    const struct attention_config *config = &layer->config;
    assert(key < metadata->n_kv_tokens && kv_head < config->n_kv_heads);
    const struct attention_sequence *sequence = &metadata->sequences[metadata->kv_sequences[key]];
    uint32_t slot = kv_slot(metadata->kv_indices[key], config->is_cyclic ? config->window : 0,
                            config->sink_tokens);
    return kv_slot_address(&metadata->kv, config->layer_index,
                           kv_block_ids(config, sequence, metadata->kv_beams[key]), kv_head, slot);
}

char *kv_key_address(const struct attention_layer *layer, const struct attention_metadata *metadata,
                     uint32_t sequence_index, uint32_t beam, uint32_t kv_head, uint32_t index)
{
    const struct attention_config *config = &layer->config;
    const struct attention_sequence *sequence = &metadata->sequences[sequence_index];
    uint32_t slot = kv_slot(index, config->is_cyclic ? config->window : 0, config->sink_tokens);
    bool is_new = config->keys == KEYS_SELF && index + sequence->query_len >= sequence->kv_len;
    if (sequence->cache_source && !is_new)
        beam = sequence->cache_source[(size_t)beam * sequence->cache_source_stride + index];
    return kv_slot_address(&metadata->kv, config->layer_index, kv_block_ids(config, sequence, beam),
                           kv_head, slot);
}
