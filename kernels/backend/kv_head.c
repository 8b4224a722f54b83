#include "kernels/backend/kv_head.h"

#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_layer.h"
#include "kernels/kv_update.h"

#include <assert.h>

static const void *element(const void *array, enum dtype dtype, uint64_t index)
{
    return (const char *)array + index * dtype_bytes(dtype);
}

struct kv_heads kv_heads_of_step(const struct attention_layer *layer,
                                 const struct attention_metadata *metadata,
                                 const struct attention_io *io, uint32_t key)
{
    const struct attention_config *config = &layer->config;
    assert(key < metadata->n_kv_tokens);
    const uint64_t row = metadata->kv_rows[key];
    struct kv_heads heads = {
        .v = {.n = config->head_dim,
              .row = element(io->v, config->compute, row * io->v_stride),
              .dtype = config->compute,
              .bias = layer->v_bias,
              .bias_dtype = DTYPE_F32,
              .cache = config->cache,
              .scale = config->v_scale},
    };
    heads.k = heads.v;
    heads.k.row = element(io->k, config->compute, row * io->k_stride);
    heads.k.bias = layer->k_bias;
    heads.k.norm = layer->k_norm;
    heads.k.norm_eps = config->norm_eps;
    heads.k.scale = config->k_scale;
    if (layer->n_rotary == 0 || config->sink_tokens != 0) /* rotated when it is read */
        return heads;
    const uint32_t rope = attention_rope_index(layer, metadata);
    assert(rope < ATTENTION_ROPES_MAX);
    const size_t angle = (size_t)key * (layer->n_rotary / 2);
    heads.k.cos = metadata->k_cos[rope] + angle;
    heads.k.sin = metadata->k_sin[rope] + angle;
    heads.k.n_rotary = layer->n_rotary;
    heads.k.is_interleaved = layer->is_interleaved;
    return heads;
}

struct kv_heads kv_heads_of_update(const struct kv_update *update, uint32_t token, uint64_t row)
{
    const struct rotary_table *table = &update->rotary;
    struct kv_heads heads = {
        .v = {.n = update->head_dim,
              .row = element(update->v, update->dtype, row * update->v_stride),
              .dtype = update->dtype,
              .bias = update->v_bias,
              .bias_dtype = update->bias_dtype,
              .cache = update->cache,
              .scale = update->v_scale},
    };
    heads.k = heads.v;
    heads.k.row = element(update->k, update->dtype, row * update->k_stride);
    heads.k.bias = update->k_bias;
    heads.k.scale = update->k_scale;
    if (table->rotary_dim == 0)
        return heads;
    const uint32_t position = update->positions ? update->positions[row] : token;
    assert(position < table->n_positions);
    const size_t angle = (size_t)position * (table->rotary_dim / 2);
    heads.k.cos = table->cos + angle;
    heads.k.sin = table->sin + angle;
    heads.k.n_rotary = table->rotary_dim;
    heads.k.is_interleaved = table->is_interleaved;
    return heads;
}

static void next(struct kv_head *head)
{
    head->row = element(head->row, head->dtype, head->n);
    if (head->bias)
        head->bias = element(head->bias, head->bias_dtype, head->n);
}

void kv_heads_next(struct kv_heads *heads)
{
    next(&heads->k);
    next(&heads->v);
}
