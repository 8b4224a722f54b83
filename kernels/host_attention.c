#include "kernels/host_attention.h"

#include "kernels/host_view.h"

#include <assert.h>

uint32_t host_rope_index(const struct host_layer *layer, const struct attention_metadata *metadata)
{
    const struct rope *const *ropes = metadata->limits.ropes;
    uint32_t r = 0;
    while (layer->config.rope && r < ATTENTION_ROPES_MAX && ropes[r] != layer->config.rope)
        r++;
    assert(r < ATTENTION_ROPES_MAX);
    return r;
}

/* What the layers of a group have in common. */
static void check_group(const struct attention_config *config,
                        const struct attention_limits *limits)
{
    assert(limits->n_heads == config->n_heads && limits->n_kv_heads == config->n_kv_heads);
    assert(limits->head_dim == config->head_dim);
    assert(limits->keys == config->keys && limits->mask == config->mask);
    assert(limits->is_cyclic == config->is_cyclic && limits->sink_tokens == config->sink_tokens);
    assert(limits->window == config->window || (!config->is_cyclic && config->sink_tokens == 0));
    assert(limits->n_beams_max <= 1 || limits->n_beams_max <= config->n_beams_max);
    assert(limits->n_draft_max <= 1 || limits->n_draft_max <= config->n_draft_max);
    assert(config->path != PATH_SHORT || limits->has_short_path);
    assert(config->multi_block != CHOICE_ON || limits->has_multi_block);
    assert(!config->bias.table || (limits->bias_keys != 0 && /* else steps are not judged */
                                   limits->bias_queries <= config->bias.n_queries &&
                                   limits->bias_keys <= config->bias.n_keys));
    assert(config->sink_tokens == 0 || !config->rope || limits->ropes[0] == config->rope);
}

void host_check_io(const struct host_layer *layer, const struct attention_metadata *metadata,
                   const struct attention_io *io)
{
    const struct attention_config *config = &layer->config;
    uint64_t q_width = (uint64_t)config->n_heads * config->head_dim;
    uint64_t kv_width = (uint64_t)config->n_kv_heads * config->head_dim;
    check_group(config, &metadata->limits);
    (void)host_rope_index(layer, metadata);
    assert(host_view_has_layer(&metadata->kv, config->layer_index) || metadata->is_dummy);
    assert(metadata->kv.token_stride >= config->head_dim * dtype_bytes(config->cache) ||
           metadata->is_dummy);
    assert(io->q_stride >= q_width && io->k_stride >= kv_width && io->v_stride >= kv_width);
    assert(io->output_stride >= q_width);
    assert((io->mask != NULL) == (config->mask_input != MASK_INPUT_NONE) || metadata->is_dummy);
}

char *host_new_key(const struct host_layer *layer, const struct attention_metadata *metadata,
                   uint32_t key, uint32_t kv_head)
{
    const struct attention_config *config = &layer->config;
    const struct attention_sequence *sequence = &metadata->sequences[metadata->kv_sequences[key]];
    uint32_t slot = kv_slot(metadata->kv_indices[key], config->is_cyclic ? config->window : 0,
                            config->sink_tokens);
    return host_kv_slot(&metadata->kv, config->layer_index,
                        sequence->block_ids + (size_t)metadata->kv_beams[key] * sequence->n_blocks,
                        kv_head, slot);
}

char *host_key(const struct host_layer *layer, const struct attention_metadata *metadata,
               uint32_t sequence_index, uint32_t beam, uint32_t kv_head, uint32_t index)
{
    const struct attention_config *config = &layer->config;
    const struct attention_sequence *sequence = &metadata->sequences[sequence_index];
    uint32_t slot = kv_slot(index, config->is_cyclic ? config->window : 0, config->sink_tokens);
    bool is_new = config->keys == KEYS_SELF && index + sequence->query_len >= sequence->kv_len;
    if (sequence->cache_source && !is_new)
        beam = sequence->cache_source[(size_t)beam * sequence->cache_source_stride + index];
    return host_kv_slot(&metadata->kv, config->layer_index,
                        sequence->block_ids + (size_t)beam * sequence->n_blocks, kv_head, slot);
}
