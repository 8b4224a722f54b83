#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/kv_address.h"
#include "kernels/reference/attention_call.h"
#include "kernels/reference/head.h"

#include <assert.h>
#include <string.h>

static void load(const struct attention_config *config, const char *slot, float scale,
                 double *head_out)
{
    for (uint32_t i = 0; i < config->head_dim; i++) {
        double x = (double)dtype_load(config->cache, slot, i);
        head_out[i] = dtype_is_8bit(config->cache) ? x * (double)scale : x;
    }
}

/* Where K of a new key is stored; V follows it directly. */
static char *new_key(const struct attention_call *call, uint32_t token, uint32_t kv_head)
{
    const struct attention_config *config = &call->layer->config;
    size_t bytes = config->head_dim * dtype_bytes(config->cache);
    return call->metadata->workspace->new_keys +
           ((size_t)token * config->n_kv_heads + kv_head) * 2 * bytes;
}

void attention_keys_make(const struct attention_call *call)
{
    const struct attention_config *config = &call->layer->config;
    size_t bytes = config->head_dim * dtype_bytes(config->cache);
    for (uint32_t token = 0; token < metadata_n_real_keys(call->metadata); token++) {
        struct kv_heads heads = kv_heads_of_step(call->layer, call->metadata, call->io, token);
        for (uint32_t h = 0; h < config->n_kv_heads; h++) {
            char *made = new_key(call, token, h);
            head_update(&heads.k, made);
            head_update(&heads.v, made + bytes);
            kv_heads_next(&heads);
        }
    }
}

/* Writes keys in the order of the tokens: if a prompt is longer than a cyclic cache, its last tokens stay. */
void attention_keys_update(const struct attention_call *call)
{
    const struct attention_metadata *metadata = call->metadata;
    const struct attention_config *config = &call->layer->config;
    size_t bytes = config->head_dim * dtype_bytes(config->cache);
    for (uint32_t token = 0; token < metadata_n_real_keys(metadata); token++)
        for (uint32_t h = 0; h < config->n_kv_heads; h++) {
            const char *made = new_key(call, token, h);
            char *k = kv_new_key_address(call->layer, metadata, token, h);
            memcpy(k, made, bytes);
            memcpy(k + metadata->kv.kv_stride, made + bytes, bytes);
        }
}

/* Where K of a key is; its V is stride_out bytes further on. */
static const char *find(const struct attention_row *row, uint32_t index, uint64_t *stride_out)
{
    const struct attention_call *call = row->call;
    const struct attention_config *config = &call->layer->config;
    uint32_t first_new = row->sequence->kv_len - row->sequence->query_len;
    if (config->is_cyclic && index >= first_new) {
        *stride_out = config->head_dim * dtype_bytes(config->cache);
        return new_key(call, call->metadata->kv_starts[row->sequence_index] + index - first_new,
                       row->kv_head);
    }
    *stride_out = call->metadata->kv.kv_stride;
    return kv_key_address(call->layer, call->metadata, row->sequence_index, row->beam, row->kv_head,
                          index);
}

/* StreamingLLM: the position of a key among the visible keys. A context sees every key. */
static uint32_t position_in_sight(const struct attention_row *row, uint32_t index)
{
    const struct attention_config *config = &row->call->layer->config;
    assert(index <= row->index || row->sequence->phase == PHASE_CONTEXT);
    const uint32_t window = attention_window_of(row->sequence, config->window);
    if (row->sequence->phase == PHASE_CONTEXT || index < config->sink_tokens || row->index < window)
        return index;
    return index - (row->index - (window - 1));
}

static void load_key(const struct attention_row *row, uint32_t index, double *k_out, double *v_out)
{
    const struct attention_layer *layer = row->call->layer;
    const struct attention_config *config = &layer->config;
    const struct attention_metadata *metadata = row->call->metadata;
    uint64_t v_stride;
    enum dtype half;
    const char *slot = find(row, index, &v_stride);
    load(config, slot, config->k_scale, k_out);
    load(config, slot + v_stride, config->v_scale, v_out);
    if (layer->n_rotary && config->sink_tokens != 0) {
        size_t angle = (size_t)position_in_sight(row, index) * (layer->n_rotary / 2);
        head_turn(metadata->position_cos + angle, metadata->position_sin + angle, layer->n_rotary,
                  layer->is_interleaved, k_out);
    }
    if (attention_math_half(row->math, &half)) {
        bool is_scaled = dtype_is_8bit(config->cache);
        head_round_half(half, is_scaled ? (double)config->k_scale : 1, config->head_dim, k_out);
        head_round_half(half, is_scaled ? (double)config->v_scale : 1, config->head_dim, v_out);
    }
    if (row->math == MATH_FP8) {
        head_round_e4m3((double)config->k_scale, config->head_dim, k_out);
        head_round_e4m3((double)config->v_scale, config->head_dim, v_out);
    }
}

void attention_keys_forget(const struct attention_call *call)
{
    const struct attention_metadata *metadata = call->metadata;
    memset(metadata->workspace->is_loaded, 0, metadata->limits.kv_len_max * sizeof(bool));
}

static size_t loaded_at(const struct attention_row *row, uint32_t index)
{
    struct attention_workspace *workspace = row->call->metadata->workspace;
    assert(index < row->call->metadata->limits.kv_len_max);
    size_t at = (size_t)index * row->call->layer->config.head_dim;
    if (!workspace->is_loaded[index])
        load_key(row, index, workspace->k + at, workspace->v + at);
    workspace->is_loaded[index] = true;
    return at;
}

const double *attention_keys_k(const struct attention_row *row, uint32_t index)
{
    return row->call->metadata->workspace->k + loaded_at(row, index);
}

const double *attention_keys_v(const struct attention_row *row, uint32_t index)
{
    return row->call->metadata->workspace->v + loaded_at(row, index);
}
