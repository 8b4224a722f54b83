#include "kernels/reference/attention.h"

#include "kernels/host_attention.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attention {
    struct host_layer layer;
};

struct attention_workspace {
    double *scores; /* [kv_len_max] of one query row */
};

static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    (void)pool;
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
    free(attention);
}

static void metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    if (metadata->workspace)
        free(metadata->workspace->scores);
    free(metadata->workspace);
    host_metadata_destroy(metadata);
}

static enum status metadata_create(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error)
{
    (void)pool;
    struct attention_metadata *metadata;
    TRY(host_metadata_create(limits, &metadata, error));
    metadata->workspace = calloc(1, sizeof *metadata->workspace);
    if (!metadata->workspace)
        goto fail;
    metadata->workspace->scores = calloc(limits->kv_len_max, sizeof(double));
    if (!metadata->workspace->scores)
        goto fail;
    *metadata_out = metadata;
    return STATUS_OK;

fail:
    metadata_destroy(metadata);
    return STATUS_NO_MEMORY;
}

static void norm_head(const float *weights, uint32_t n, double eps, double *head)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += head[i] * head[i];
    double factor = 1 / sqrt(squares / n + eps);
    for (uint32_t i = 0; i < n; i++)
        head[i] *= factor * (double)weights[i];
}

static void turn_head(const float *cos_row, const float *sin_row, uint32_t n, double *head)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        double low = head[i];
        double high = head[i + n / 2];
        head[i] = low * (double)cos_row[i] - high * (double)sin_row[i];
        head[i + n / 2] = high * (double)cos_row[i] + low * (double)sin_row[i];
    }
}

/* Norm and rotation of one Q or K head, in place. */
static void update_head(const struct host_layer *layer, const struct attention_metadata *metadata,
                        uint32_t token, const float *norm, float *head)
{
    double wide[HEAD_DIM_MAX];
    uint32_t n = layer->head_dim;
    size_t angle = (size_t)token * (n / 2);
    for (uint32_t i = 0; i < n; i++)
        wide[i] = (double)head[i];
    if (norm)
        norm_head(norm, n, (double)layer->norm_eps, wide);
    if (layer->rope)
        turn_head(metadata->rope_cos + angle, metadata->rope_sin + angle, n, wide);
    for (uint32_t i = 0; i < n; i++)
        head[i] = (float)wide[i];
}

static void update_token(const struct host_layer *layer, const struct attention_metadata *metadata,
                         uint32_t token, float *row)
{
    uint32_t n = layer->head_dim;
    float *k_heads = row + (size_t)layer->n_heads * n;
    float *v_heads = k_heads + (size_t)layer->n_kv_heads * n;
    const struct attention_sequence *sequence = &metadata
                                                     ->sequences[metadata->token_sequences[token]];
    for (uint32_t h = 0; h < layer->n_heads; h++)
        update_head(layer, metadata, token, layer->has_q_norm ? layer->q_norm : NULL,
                    row + (size_t)h * n);
    for (uint32_t h = 0; h < layer->n_kv_heads; h++) {
        update_head(layer, metadata, token, layer->has_k_norm ? layer->k_norm : NULL,
                    k_heads + (size_t)h * n);
        if (metadata->is_dummy)
            continue;
        char *k = host_kv_token(&metadata->kv, layer->layer_index, sequence->block_ids, h,
                                metadata->positions[token]);
        for (uint32_t i = 0; i < n; i++) {
            dtype_store(layer->cache, k, i, k_heads[(size_t)h * n + i]);
            dtype_store(layer->cache, k + metadata->kv.kv_stride, i, v_heads[(size_t)h * n + i]);
        }
    }
}

static void kv_update(const struct attention *attention, const struct attention_metadata *metadata,
                      const struct attention_io *io)
{
    host_check_io(&attention->layer, metadata, io);
    for (uint32_t token = 0; token < metadata->n_tokens; token++)
        update_token(&attention->layer, metadata, token, io->qkv + token * io->qkv_stride);
}

/* softmax(scale q K^T) V of one query head over keys first .. last. */
static void attend(const struct host_layer *layer, const struct attention_metadata *metadata,
                   const struct attention_sequence *sequence, uint32_t head, uint32_t last,
                   const float *q, float *output)
{
    double *scores = metadata->workspace->scores;
    double sums[HEAD_DIM_MAX] = {0};
    double largest = -INFINITY;
    double total = 0;
    uint32_t n = layer->head_dim;
    uint32_t kv_head = head / layer->group;
    uint32_t first = layer->window != 0 && last >= layer->window ? last - layer->window + 1 : 0;
    for (uint32_t j = first; j <= last; j++) {
        const char *k = host_kv_token(&metadata->kv, layer->layer_index, sequence->block_ids,
                                      kv_head, j);
        double dot = 0;
        for (uint32_t i = 0; i < n; i++)
            dot += (double)q[i] * (double)dtype_load(layer->cache, k, i);
        scores[j] = dot * (double)layer->scale;
        largest = fmax(largest, scores[j]);
    }
    for (uint32_t j = first; j <= last; j++) {
        const char *v = host_kv_token(&metadata->kv, layer->layer_index, sequence->block_ids,
                                      kv_head, j) +
                        metadata->kv.kv_stride;
        double weight = exp(scores[j] - largest);
        total += weight;
        for (uint32_t i = 0; i < n; i++)
            sums[i] += weight * (double)dtype_load(layer->cache, v, i);
    }
    for (uint32_t i = 0; i < n; i++)
        output[i] = (float)(sums[i] / total);
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io)
{
    const struct host_layer *layer = &attention->layer;
    uint32_t n = layer->head_dim;
    kv_update(attention, metadata, io);
    for (uint32_t token = 0; token < metadata->n_tokens; token++) {
        float *output = io->output + token * io->output_stride;
        const float *q = io->qkv + token * io->qkv_stride;
        if (metadata->is_dummy) {
            memset(output, 0, (size_t)layer->n_heads * n * sizeof *output);
            continue;
        }
        for (uint32_t head = 0; head < layer->n_heads; head++)
            attend(layer, metadata, &metadata->sequences[metadata->token_sequences[token]], head,
                   metadata->positions[token], q + (size_t)head * n, output + (size_t)head * n);
    }
    return STATUS_OK;
}

const struct attention_backend reference_attention = {
    .name = "reference",
    .create = create,
    .destroy = destroy,
    .metadata_create = metadata_create,
    .metadata_destroy = metadata_destroy,
    .metadata_prepare = host_metadata_prepare,
    .kv_update = kv_update,
    .forward = forward,
};
