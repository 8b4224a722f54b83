#include "kernels/host_attention.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static enum status check_shape(uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                               struct error *error)
{
    if (n_heads == 0 || n_kv_heads == 0 || n_heads % n_kv_heads != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_heads %u is no multiple of n_kv_heads %u", n_heads, n_kv_heads);
    if (head_dim == 0 || head_dim % 8 != 0 || head_dim > HEAD_DIM_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "head_dim is %u, must be a multiple of 8 up to %u", head_dim,
                         HEAD_DIM_MAX);
    return STATUS_OK;
}

static enum status check_supported(const struct attention_config *config, struct error *error)
{
    if (config->compute != DTYPE_F32)
        return error_set(error, STATUS_UNSUPPORTED, "compute dtype %d: only F32 is supported",
                         (int)config->compute);
    if (config->cache > DTYPE_F16)
        return error_set(error, STATUS_UNSUPPORTED,
                         "cache dtype %d: only F32, BF16 and F16 are supported",
                         (int)config->cache);
    if (config->soft_cap != 0)
        return error_set(error, STATUS_UNSUPPORTED, "soft_cap %g is not supported",
                         (double)config->soft_cap);
    if (config->mask != MASK_CAUSAL)
        return error_set(error, STATUS_UNSUPPORTED, "mask %d: only the causal one is supported",
                         (int)config->mask);
    if (config->sink_tokens != 0)
        return error_set(error, STATUS_UNSUPPORTED, "sink_tokens %u is not supported",
                         config->sink_tokens);
    return STATUS_OK;
}

static bool is_factor(float value)
{
    return isfinite(value) && value >= 0;
}

static enum status check_values(const struct attention_config *config, struct error *error)
{
    if (!is_factor(config->q_scaling) || !is_factor(config->scale))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "q_scaling %g, scale %g: must be finite and not negative",
                         (double)config->q_scaling, (double)config->scale);
    if (config->q_scaling != 0 && config->scale != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "q_scaling %g and scale %g: give one of them", (double)config->q_scaling,
                         (double)config->scale);
    if (config->rope && rope_head_dim(config->rope) != config->head_dim)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope turns heads of %u, head_dim is %u",
                         rope_head_dim(config->rope), config->head_dim);
    if (!config->q_norm && !config->k_norm)
        return STATUS_OK;
    if (config->norm_dtype > DTYPE_F16)
        return error_set(error, STATUS_UNSUPPORTED, "norm dtype %d is not supported",
                         (int)config->norm_dtype);
    if (!isfinite(config->norm_eps) || config->norm_eps <= 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "norm_eps is %g, must be positive",
                         (double)config->norm_eps);
    return STATUS_OK;
}

static void copy_norm(const void *weights, enum dtype dtype, uint32_t n, float *copy_out)
{
    for (uint32_t i = 0; weights && i < n; i++)
        copy_out[i] = dtype_load(dtype, weights, i);
}

enum status host_layer_init(const struct attention_config *config, struct host_layer *layer_out,
                            struct error *error)
{
    TRY(check_shape(config->n_heads, config->n_kv_heads, config->head_dim, error));
    TRY(check_supported(config, error));
    TRY(check_values(config, error));
    float q_scaling = config->q_scaling != 0 ? config->q_scaling : 1;
    *layer_out = (struct host_layer){
        .layer_index = config->layer_index,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .group = config->n_heads / config->n_kv_heads,
        .window = config->window,
        .cache = config->cache,
        .scale = config->scale != 0 ? config->scale
                                    : (float)(1 / (q_scaling * sqrt(config->head_dim))),
        .norm_eps = config->norm_eps,
        .has_q_norm = config->q_norm != NULL,
        .has_k_norm = config->k_norm != NULL,
        .rope = config->rope,
    };
    copy_norm(config->q_norm, config->norm_dtype, config->head_dim, layer_out->q_norm);
    copy_norm(config->k_norm, config->norm_dtype, config->head_dim, layer_out->k_norm);
    return STATUS_OK;
}

static enum status check_limits(const struct attention_limits *limits, struct error *error)
{
    TRY(check_shape(limits->n_heads, limits->n_kv_heads, limits->head_dim, error));
    if (limits->n_sequences_max == 0 || limits->n_tokens_max == 0 || limits->kv_len_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_sequences_max %u, n_tokens_max %u, kv_len_max %u: none may be 0",
                         limits->n_sequences_max, limits->n_tokens_max, limits->kv_len_max);
    if (limits->rope && rope_head_dim(limits->rope) != limits->head_dim)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope turns heads of %u, head_dim is %u",
                         rope_head_dim(limits->rope), limits->head_dim);
    return STATUS_OK;
}

enum status host_metadata_create(const struct attention_limits *limits,
                                 struct attention_metadata **metadata_out, struct error *error)
{
    TRY(check_limits(limits, error));
    struct attention_metadata *metadata = calloc(1, sizeof *metadata);
    if (!metadata)
        return STATUS_NO_MEMORY;
    metadata->limits = *limits;
    size_t n_sequences = limits->n_sequences_max;
    size_t n_tokens = limits->n_tokens_max;
    size_t n_angles = n_tokens * (limits->head_dim / 2);
    metadata->sequences = calloc(n_sequences, sizeof *metadata->sequences);
    metadata->token_starts = calloc(n_sequences + 1, sizeof *metadata->token_starts);
    metadata->positions = calloc(n_tokens, sizeof *metadata->positions);
    metadata->token_sequences = calloc(n_tokens, sizeof *metadata->token_sequences);
    metadata->rope_cos = calloc(n_angles, sizeof *metadata->rope_cos);
    metadata->rope_sin = calloc(n_angles, sizeof *metadata->rope_sin);
    if (!metadata->sequences || !metadata->token_starts || !metadata->positions ||
        !metadata->token_sequences || !metadata->rope_cos || !metadata->rope_sin) {
        host_metadata_destroy(metadata);
        return STATUS_NO_MEMORY;
    }
    *metadata_out = metadata;
    return STATUS_OK;
}

void host_metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    free(metadata->sequences);
    free(metadata->token_starts);
    free(metadata->positions);
    free(metadata->token_sequences);
    free(metadata->rope_cos);
    free(metadata->rope_sin);
    free(metadata);
}

static enum status check_view(const struct kv_view *kv, struct error *error)
{
    uint32_t block_tokens = kv->block_tokens;
    if (block_tokens < BLOCK_TOKENS_MIN || block_tokens > BLOCK_TOKENS_MAX ||
        (block_tokens & (block_tokens - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_tokens is %u, must be a power of two from %u to %u", block_tokens,
                         BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    return STATUS_OK;
}

static enum status check_blocks(const struct attention_sequence *sequence, const struct kv_view *kv,
                                struct error *error)
{
    uint32_t block_tokens = kv->block_tokens;
    uint32_t n_needed = sequence->kv_len / block_tokens + (sequence->kv_len % block_tokens != 0);
    if (sequence->n_blocks < n_needed)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a sequence of %u tokens has %u blocks, needs %u", sequence->kv_len,
                         sequence->n_blocks, n_needed);
    for (uint32_t i = 0; i < n_needed; i++)
        if (sequence->block_ids[i] >= kv->n_blocks)
            return error_set(error, STATUS_INVALID_ARGUMENT, "block id %u, the pool has %u",
                             sequence->block_ids[i], kv->n_blocks);
    return STATUS_OK;
}

static enum status check_sequence(const struct attention_sequence *sequence,
                                  const struct kv_view *kv, uint32_t kv_len_max,
                                  struct error *error)
{
    uint32_t query_len = sequence->query_len;
    uint32_t kv_len = sequence->kv_len;
    if (kv_len < query_len || kv_len > kv_len_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_len is %u, must be from query_len %u to %u", kv_len, query_len,
                         kv_len_max);
    if (sequence->phase == PHASE_GENERATION)
        return query_len == 1
                   ? STATUS_OK
                   : error_set(error, STATUS_INVALID_ARGUMENT,
                               "a generation sequence has query_len %u, must be 1", query_len);
    if (kv_len > sequence->prompt_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_len %u of a context sequence is over its prompt_len %u", kv_len,
                         sequence->prompt_len);
    if (kv_len < sequence->prompt_len && query_len % kv->block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a chunk before the last has %u tokens, must be a multiple of %u",
                         query_len, kv->block_tokens);
    return STATUS_OK;
}

static enum status check_step(const struct attention_metadata *metadata,
                              const struct attention_step *step, const struct kv_view *kv,
                              struct error *error)
{
    const struct attention_limits *limits = &metadata->limits;
    uint64_t n_tokens = 0;
    TRY(check_view(kv, error));
    if (step->n_sequences > limits->n_sequences_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%u sequences, at most %u fit a step",
                         step->n_sequences, limits->n_sequences_max);
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        if (i > 0 && sequence->phase == PHASE_CONTEXT && sequence[-1].phase == PHASE_GENERATION)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: a context sequence follows a generation sequence", i);
        TRY(check_sequence(sequence, kv, limits->kv_len_max, error));
        if (!step->is_dummy)
            TRY(check_blocks(sequence, kv, error));
        n_tokens += sequence->query_len;
    }
    if (n_tokens > limits->n_tokens_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%llu tokens, at most %u fit a step",
                         (unsigned long long)n_tokens, limits->n_tokens_max);
    return STATUS_OK;
}

static void add_tokens(struct attention_metadata *metadata, uint32_t index)
{
    const struct attention_sequence *sequence = &metadata->sequences[index];
    uint32_t half = metadata->limits.head_dim / 2;
    for (uint32_t i = 0; i < sequence->query_len; i++) {
        uint32_t token = metadata->n_tokens++;
        uint32_t position = sequence->kv_len - sequence->query_len + i;
        metadata->positions[token] = position;
        metadata->token_sequences[token] = index;
        if (metadata->limits.rope)
            rope_angles(metadata->limits.rope, position, metadata->rope_cos + (size_t)token * half,
                        metadata->rope_sin + (size_t)token * half);
    }
}

enum status host_metadata_prepare(struct attention_metadata *metadata,
                                  const struct attention_step *step, const struct kv_view *kv,
                                  struct error *error)
{
    TRY(check_step(metadata, step, kv, error));
    metadata->kv = *kv;
    metadata->is_dummy = step->is_dummy;
    metadata->n_sequences = step->n_sequences;
    metadata->n_contexts = metadata->n_generations = 0;
    metadata->n_tokens = metadata->n_context_tokens = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        metadata->sequences[i] = step->sequences[i];
        metadata->token_starts[i] = metadata->n_tokens;
        add_tokens(metadata, i);
        if (step->sequences[i].phase == PHASE_CONTEXT) {
            metadata->n_contexts++;
            metadata->n_context_tokens = metadata->n_tokens;
        } else {
            metadata->n_generations++;
        }
    }
    metadata->token_starts[step->n_sequences] = metadata->n_tokens;
    return STATUS_OK;
}

void host_check_io(const struct host_layer *layer, const struct attention_metadata *metadata,
                   const struct attention_io *io)
{
    const struct attention_limits *limits = &metadata->limits;
    uint64_t n_rows = layer->n_heads + 2 * (uint64_t)layer->n_kv_heads;
    assert(limits->n_heads == layer->n_heads && limits->n_kv_heads == layer->n_kv_heads);
    assert(limits->head_dim == layer->head_dim && limits->rope == layer->rope);
    assert(layer->layer_index < metadata->kv.n_layers || metadata->is_dummy);
    assert(io->qkv_stride >= n_rows * layer->head_dim);
    assert(io->output_stride >= (uint64_t)layer->n_heads * layer->head_dim);
}
