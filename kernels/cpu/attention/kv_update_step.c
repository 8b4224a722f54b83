#include "kernels/cpu/attention/kv_update_step.h"

#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/kv_address.h"
#include "kernels/cpu/layer/kv_update_head.h"
#include "kernels/cpu/parallel.h"

#include <assert.h>

enum { KEYS_PER_TASK = 8 };

struct update {
    const struct attention_call *call;
    char *staged; /* NULL: nothing is staged */
};

/* Whether a later token of the step takes the same slot: two threads could write both. */
static bool is_overwritten(const struct attention_call *call, uint32_t key)
{
    const struct attention_config *config = &call->attention->host.config;
    const struct attention_metadata *metadata = call->metadata;
    uint32_t index = metadata->kv_indices[key];
    return config->is_cyclic && index >= config->sink_tokens &&
           (uint64_t)index + config->window - config->sink_tokens <
               metadata->sequences[metadata->kv_sequences[key]].kv_len;
}

static void update_key(const struct update *update, uint32_t key)
{
    const struct attention_call *call = update->call;
    const struct attention_layer *layer = &call->attention->host;
    bool to_staged = update->staged && is_staged(call, call->metadata->kv_sequences[key]);
    if (!to_staged && is_overwritten(call, key))
        return;
    assert(!to_staged || layer->config.is_cyclic);
    size_t head_bytes = staged_head_bytes(layer);
    struct kv_heads heads = kv_heads_of_step(layer, call->metadata, call->io, key);
    for (uint32_t h = 0; h < layer->config.n_kv_heads; h++) {
        char *k = to_staged ? update->staged + key * staged_stride(layer) + 2 * h * head_bytes
                            : kv_new_key_address(layer, call->metadata, key, h);
        kv_update_head(&heads.k, k);
        kv_update_head(&heads.v, k + (to_staged ? head_bytes : call->metadata->kv.kv_stride));
        kv_heads_next(&heads);
    }
}

static void update_keys(void *arg, uint32_t index)
{
    const struct update *update = arg;
    uint32_t key = index * KEYS_PER_TASK;
    uint32_t end = key + KEYS_PER_TASK;
    for (; key < end && key < metadata_n_real_keys(update->call->metadata); key++)
        update_key(update, key);
}

void kv_update_step(const struct attention_call *call, char *staged)
{
    const struct attention_config *config = &call->attention->host.config;
    struct update update = {.call = call, .staged = staged};
    if (call->metadata->is_dummy || call->io->is_written)
        return;
    uint32_t n_keys = metadata_n_real_keys(call->metadata);
    uint64_t work = (uint64_t)n_keys * config->n_kv_heads * config->head_dim * 4;
    parallel_run(call->attention->pool, work, (n_keys + KEYS_PER_TASK - 1) / KEYS_PER_TASK,
                 update_keys, &update);
}

void kv_update_from_staged(const struct attention_call *call, const char *staged)
{
    const struct attention_layer *layer = &call->attention->host;
    assert(staged && layer->config.is_cyclic);
    size_t head_bytes = staged_head_bytes(layer);
    for (uint32_t key = 0; key < metadata_n_real_keys(call->metadata); key++) {
        if (!is_staged(call, call->metadata->kv_sequences[key]) || is_overwritten(call, key))
            continue;
        for (uint32_t h = 0; h < layer->config.n_kv_heads; h++) {
            const char *k = staged + key * staged_stride(layer) + 2 * h * head_bytes;
            char *slot = kv_new_key_address(layer, call->metadata, key, h);
            memcpy(slot, k, head_bytes);
            memcpy(slot + call->metadata->kv.kv_stride, k + head_bytes, head_bytes);
        }
    }
}
