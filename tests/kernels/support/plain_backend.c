/* plain - the example of docs/new-backend.md: causal attention over a float32 cache, nothing else. */
#include "tests/kernels/support/plain_backend.h"

#include "kernels/attention_features.h"
#include "kernels/host_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attention {
    struct host_layer layer;
};

/* What is legal but not computed here is refused: nothing is ever ignored. */
static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    (void)pool;
    const uint64_t heads_share_keys = UINT64_C(1) << 7;
    if ((attention_features_used(config) & ~heads_share_keys) != 0 ||
        config->math != MATH_COMPUTE || config->cache != DTYPE_F32 ||
        config->compute != DTYPE_F32 || config->q_norm || config->k_norm || config->qkv_bias ||
        config->rope || config->path != PATH_AUTO)
        return error_set(error, STATUS_UNSUPPORTED, "plain computes causal F32 attention alone");
    struct attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return STATUS_NO_MEMORY;
    enum status status = host_layer_init(config, &attention->layer, error);
    if (status != STATUS_OK) {
        free(attention);
        return status;
    }
    *attention_out = attention;
    return STATUS_OK;
}

static void destroy(struct attention *attention)
{
    if (attention)
        host_layer_finish(&attention->layer);
    free(attention);
}

static enum status metadata_create(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error)
{
    (void)pool;
    return host_metadata_create(limits, metadata_out, error);
}

static void kv_update(const struct attention *attention, const struct attention_metadata *metadata,
                      const struct attention_io *io)
{
    const struct host_layer *layer = &attention->layer;
    const uint32_t d = layer->config.head_dim;
    for (uint32_t token = 0; token < metadata->n_kv_tokens && !metadata->is_dummy; token++)
        for (uint32_t h = 0; h < layer->config.n_kv_heads; h++) {
            const size_t row = metadata->kv_rows[token];
            char *slot = host_key(layer, metadata, metadata->kv_sequences[token], 0, h,
                                  metadata->kv_indices[token]);
            memcpy(slot, (const float *)io->k + row * io->k_stride + h * d, d * sizeof(float));
            memcpy(slot + metadata->kv.kv_stride, (const float *)io->v + row * io->v_stride + h * d,
                   d * sizeof(float));
        }
}

/* Returns the log-sum-exp. */
static float attend(const struct host_layer *layer, const struct attention_metadata *metadata,
                    uint32_t token, uint32_t head, const float *q, float *output)
{
    const uint32_t d = layer->config.head_dim;
    float sum = 0, largest = -INFINITY;
    memset(output, 0, d * sizeof *output);
    for (uint32_t j = 0; j <= metadata->indices[token] && !metadata->is_dummy; j++) {
        const char *key = host_key(layer, metadata, metadata->token_sequences[token], 0,
                                   head / layer->group, j);
        const float *k = (const float *)(const void *)key;
        const float *v = (const float *)(const void *)(key + metadata->kv.kv_stride);
        float score = 0;
        for (uint32_t i = 0; i < d; i++)
            score += q[i] * k[i];
        const float next = fmaxf(largest, score * layer->scale);
        const float keep = expf(largest - next), weight = expf(score * layer->scale - next);
        largest = next;
        sum = sum * keep + weight;
        for (uint32_t i = 0; i < d; i++)
            output[i] = output[i] * keep + weight * v[i];
    }
    for (uint32_t i = 0; i < d && sum > 0; i++)
        output[i] /= sum;
    return sum > 0 ? largest + logf(sum) : -INFINITY;
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io)
{
    const struct host_layer *layer = &attention->layer;
    const uint32_t d = layer->config.head_dim;
    kv_update(attention, metadata, io);
    for (uint32_t token = 0; token < metadata->n_tokens; token++)
        for (uint32_t head = 0; head < layer->config.n_heads; head++) {
            const size_t row = metadata->token_rows[token];
            const float lse = attend(layer, metadata, token, head,
                                     (const float *)io->q + row * io->q_stride + head * d,
                                     (float *)io->output + row * io->output_stride + head * d);
            if (io->lse)
                io->lse[row * layer->config.n_heads + head] = lse;
        }
    return STATUS_OK;
}

const struct attention_backend plain_attention = {
    .name = "plain",
    .create = create,
    .destroy = destroy,
    .metadata_create = metadata_create,
    .metadata_destroy = host_metadata_destroy,
    .metadata_prepare = host_metadata_prepare,
    .metadata_make_static = host_metadata_make_static,
    .kv_update = kv_update,
    .forward = forward,
};
