/* plain - the example of docs/new-backend.md: causal attention over a float32 cache, nothing else. */
#include "tests/kernels/support/plain_backend.h"

#include "kernels/attention_features.h"
#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_layer.h"
#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/kv_address.h"

#include <math.h>
#include <string.h>

static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    TRY(attention_features_check(config, plain_attention.features, error));
    return bare_attention_create(config, pool, attention_out, error);
}

static void write_keys(const struct attention_layer *layer,
                       const struct attention_metadata *metadata, const struct attention_io *io)
{
    const uint32_t n = layer->config.head_dim;
    for (uint32_t key = 0; key < metadata_n_real_keys(metadata) && !metadata->is_dummy; key++)
        for (uint32_t h = 0; h < layer->config.n_kv_heads; h++) {
            const float *k = (const float *)io->k + metadata->kv_rows[key] * io->k_stride + h * n;
            const float *v = (const float *)io->v + metadata->kv_rows[key] * io->v_stride + h * n;
            char *slot = kv_new_key_address(layer, metadata, key, h);
            memcpy(slot, k, n * sizeof *k);
            memcpy(slot + metadata->kv.kv_stride, v, n * sizeof *v);
        }
}

static enum status kv_update(const struct attention *attention,
                             const struct attention_metadata *metadata,
                             const struct attention_io *io, struct error *error)
{
    const struct attention_layer *layer = bare_attention_layer(attention);
    TRY(attention_io_check_kv(layer, metadata, io, error));
    write_keys(layer, metadata, io);
    return STATUS_OK;
}

/* out = softmax(scale q K) V, with a running softmax. Returns the log-sum-exp. */
static float attend(const struct attention_layer *layer, const struct attention_metadata *metadata,
                    uint32_t token, uint32_t head, const float *q, float *out)
{
    const uint32_t n = layer->config.head_dim, kv_head = head / layer->group;
    float sum = 0, largest = -INFINITY;
    const uint32_t sequence = metadata->token_sequences[token];
    const bool is_dummy = metadata->is_dummy || metadata->sequences[sequence].is_dummy;
    memset(out, 0, n * sizeof *out);
    for (uint32_t j = 0; j <= metadata->indices[token] && !is_dummy; j++) {
        const void *k = kv_key_address(layer, metadata, sequence, 0, kv_head, j);
        const void *v = (const char *)k + metadata->kv.kv_stride;
        float score = 0;
        for (uint32_t i = 0; i < n; i++)
            score += layer->scale * q[i] * ((const float *)k)[i];
        const float next = fmaxf(largest, score);
        const float keep = expf(largest - next), weight = expf(score - next);
        largest = next;
        sum = sum * keep + weight;
        for (uint32_t i = 0; i < n; i++)
            out[i] = out[i] * keep + weight * ((const float *)v)[i];
    }
    for (uint32_t i = 0; i < n && sum > 0; i++)
        out[i] /= sum;
    return largest + logf(sum); /* -inf without a key */
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io,
                           struct error *error)
{
    const struct attention_layer *layer = bare_attention_layer(attention);
    const uint32_t n_heads = layer->config.n_heads, n = layer->config.head_dim;
    TRY(attention_io_check(layer, metadata, io, error));
    write_keys(layer, metadata, io);
    for (uint32_t token = 0; token < metadata->n_tokens; token++)
        for (uint32_t h = 0; h < n_heads; h++) {
            const size_t row = metadata->token_rows[token];
            float lse = attend(layer, metadata, token, h,
                               (const float *)io->q + row * io->q_stride + h * n,
                               (float *)io->output + row * io->output_stride + h * n);
            if (io->lse)
                io->lse[row * n_heads + h] = lse;
        }
    return STATUS_OK;
}

const struct attention_backend plain_attention = {
    .name = "plain",
    .features = ATTENTION_FEATURES_OF_CALLS | ATTENTION_FEATURE(FEATURE_PREFIX),
    .create = create,
    .destroy = bare_attention_destroy,
    .metadata_create = attention_metadata_create,
    .metadata_destroy = attention_metadata_destroy,
    .metadata_prepare = attention_metadata_prepare,
    .metadata_make_static = attention_metadata_make_static,
    .metadata_arena_bytes = attention_metadata_arena_bytes,
    .metadata_use_arena = attention_metadata_use_arena,
    .kv_update = kv_update,
    .forward = forward,
};
