#include "model/forward.h"

#include "base/log.h"
#include "device/stage.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the MLP's inner activations at a time: bounds the workspace, stays in the second cache,
 * and is enough to spread the cost of widening 16-bit weights. */
#define MLP_ROWS       512u
#define TOKENS_MAX_MAX (1u << 20)
#define ALIGNMENT      64u /* bytes, of each part of the activations */

struct forward {
    const struct model_config *config;
    const struct weights *weights;
    const struct kernels *kernels;
    const struct attention_backend *backend;
    struct thread_pool *threads;
    struct forward_options options;
    uint32_t kv_tokens_max; /* of one sequence */
    uint32_t qkv_width;     /* floats of a token: Q, K and V heads */

    struct rope *rope;
    struct attention **attention;  /* [n_layers] */
    struct attention_config shape; /* heads and dtypes, the same in every layer */
    struct attention_metadata *metadata;
    struct kv_view kv;

    struct attention_sequence *sequences; /* [sequences_max] */
    struct stage *stage;                  /* struct staged of each step */
    struct device_memory activations;     /* of which: */
    float *hidden;                        /* [tokens_max][hidden] the residual stream */
    float *normed;                        /* [tokens_max][hidden] */
    float *qkv;                           /* [tokens_max][qkv_width] */
    float *attended;                      /* [tokens_max][n_heads * head_dim] */
    float *gate, *up;                     /* [MLP_ROWS][ffn] */
};

/* What the host lays out for a step, in an arena of the stage. */
struct staged {
    uint32_t *token_ids;  /* [tokens_max] */
    uint32_t *logit_rows; /* [sequences_max] packed token of each wanted row */
};

/* What a step comes to once it is packed; ids and rows are the device's. */
struct packed {
    const uint32_t *token_ids, *logit_rows;
    uint32_t n_tokens, n_logits;
};

static enum dtype to_dtype(enum cache_dtype dtype)
{
    switch (dtype) {
    case CACHE_BF16:
        return DTYPE_BF16;
    case CACHE_F16:
        return DTYPE_F16;
    case CACHE_F32:
        break;
    }
    return DTYPE_F32;
}

static enum attention_math to_math(enum context_math math)
{
    static const enum attention_math maths[] = {MATH_COMPUTE, MATH_BF16, MATH_FP16};
    return maths[math];
}

size_t forward_block_bytes(const struct model_config *config, uint32_t block_tokens,
                           enum cache_dtype dtype)
{
    return (size_t)config->n_layers * 2 * config->n_kv_heads * block_tokens * config->head_dim *
           dtype_bytes(to_dtype(dtype));
}

/* ---- creation ---- */

static enum status check_range(const char *name, uint32_t value, uint32_t max, struct error *error)
{
    if (value >= 1 && value <= max)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %u, expected 1 .. %u", name, value,
                     max);
}

static enum status check_options(const struct model_config *config,
                                 const struct forward_options *options,
                                 const struct block_pool *pool, struct error *error)
{
    uint32_t block_tokens = options->block_tokens;
    if (block_tokens < BLOCK_TOKENS_MIN || block_tokens > BLOCK_TOKENS_MAX ||
        (block_tokens & (block_tokens - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_tokens is %u, expected a power of two, %u .. %u", block_tokens,
                         BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    if ((unsigned)options->cache_dtype > CACHE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cache_dtype %d is none",
                         (int)options->cache_dtype);
    if ((unsigned)options->context_math > CONTEXT_MATH_FP16)
        return error_set(error, STATUS_INVALID_ARGUMENT, "context_math %d is none",
                         (int)options->context_math);
    TRY(check_range("tokens_max", options->tokens_max, TOKENS_MAX_MAX, error));
    TRY(check_range("sequences_max", options->sequences_max, TOKENS_MAX_MAX, error));
    TRY(check_range("blocks_max", options->blocks_max, UINT32_MAX, error));
    size_t block_bytes = forward_block_bytes(config, block_tokens, options->cache_dtype);
    if (block_pool_block_bytes(pool) != block_bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the pool's blocks have %zu bytes, this model's have %zu",
                         block_pool_block_bytes(pool), block_bytes);
    return STATUS_OK;
}

static enum status create_attention(struct forward *forward, uint32_t layer, struct error *error)
{
    const struct model_config *config = forward->config;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    assert(weights->q_norm.dtype == weights->k_norm.dtype); /* model_load has checked */
    struct attention_config attention = forward->shape;
    attention.layer_index = layer;
    attention.window = config->windows[layer];
    attention.q_norm = weights->q_norm.data;
    attention.k_norm = weights->k_norm.data;
    attention.norm_dtype = weights->q_norm.dtype;
    return forward->backend->create(&attention, forward->threads, &forward->attention[layer],
                                    error);
}

static enum status create_operators(struct forward *forward, struct block_pool *pool,
                                    struct error *error)
{
    const struct model_config *config = forward->config;
    const struct forward_options *options = &forward->options;
    TRY(rope_create(&config->rope, &forward->rope, error));
    forward->shape = (struct attention_config){
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .compute = DTYPE_F32,
        .cache = to_dtype(options->cache_dtype),
        .mask = MASK_CAUSAL,
        .reuses_prefix = true,
        .rope = forward->rope,
        .norm_eps = config->norm_eps,
        .math = to_math(options->context_math),
    };
    forward->attention = calloc(config->n_layers, sizeof *forward->attention);
    if (!forward->attention)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        TRY(create_attention(forward, layer, error));

    struct attention_limits limits = {
        .n_sequences_max = options->sequences_max,
        .n_tokens_max = options->tokens_max,
        .kv_len_max = forward->kv_tokens_max,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .cache = to_dtype(options->cache_dtype),
        .mask = MASK_CAUSAL,
        .ropes = {forward->rope},
    };
    forward->kv = kv_view_dense(block_pool_base(pool), block_pool_size(pool), config->n_layers,
                                config->n_kv_heads, options->block_tokens, config->head_dim,
                                to_dtype(options->cache_dtype));
    return forward->backend->metadata_create(&limits, forward->threads, &forward->metadata, error);
}

/* One after the other in one allocation; the first call, without memory, counts the bytes. */
static size_t lay_out_activations(struct forward *forward, uint8_t *base)
{
    const struct model_config *config = forward->config;
    size_t tokens = forward->options.tokens_max;
    size_t mlp_rows = tokens < MLP_ROWS ? tokens : MLP_ROWS;
    const struct {
        float **rows;
        size_t n_rows, width;
    } parts[] = {
        {&forward->hidden, tokens, config->hidden},
        {&forward->normed, tokens, config->hidden},
        {&forward->qkv, tokens, forward->qkv_width},
        {&forward->attended, tokens, (size_t)config->n_heads * config->head_dim},
        {&forward->gate, mlp_rows, config->ffn},
        {&forward->up, mlp_rows, config->ffn},
    };
    size_t end = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t bytes = parts[i].n_rows * parts[i].width * sizeof(float);
        if (base)
            *parts[i].rows = (float *)(void *)(base + end);
        end += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return end;
}

static enum status create_workspace(struct forward *forward)
{
    const struct forward_options *options = &forward->options;
    size_t staged = ((size_t)options->tokens_max + options->sequences_max) * sizeof(uint32_t);
    forward->sequences = calloc(options->sequences_max, sizeof *forward->sequences);
    if (!forward->sequences)
        return STATUS_NO_MEMORY;
    TRY(stage_create(options->device, DEVICE_COMPUTE, staged, &forward->stage));
    TRY(device_allocate(options->device, DEVICE_ACTIVATIONS, lay_out_activations(forward, NULL),
                        &forward->activations));
    size_t bytes = lay_out_activations(forward, forward->activations.base);
    assert(bytes == forward->activations.bytes);
    (void)bytes;
    return STATUS_OK;
}

static uint32_t kv_tokens_max(const struct model_config *config,
                              const struct forward_options *options)
{
    uint64_t tokens = (uint64_t)options->blocks_max * options->block_tokens;
    return tokens < config->context_tokens ? (uint32_t)tokens : config->context_tokens;
}

enum status forward_create(const struct model *model, const struct forward_options *options,
                           struct block_pool *pool, struct error *error,
                           struct forward **forward_out)
{
    const struct model_config *config = model_get_config(model);
    TRY(check_options(config, options, pool, error));
    struct forward *forward = calloc(1, sizeof *forward);
    if (!forward)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    forward->config = config;
    forward->weights = model_weights(model);
    forward->threads = options->threads;
    forward->options = *options;
    forward->kv_tokens_max = kv_tokens_max(config, options);
    forward->qkv_width = (config->n_heads + 2 * config->n_kv_heads) * config->head_dim;

    assert(options->device);
    enum status status = create_workspace(forward);
    if (status == STATUS_NO_MEMORY)
        status = error_set(error, status, "no memory for a batch of %u tokens (tokens_max)",
                           options->tokens_max);
    forward->kernels = model_kernels(model);
    forward->backend = model_attention(model);
    if (status == STATUS_OK)
        status = create_operators(forward, pool, error);
    if (status != STATUS_OK)
        goto fail;
    *forward_out = forward;
    return STATUS_OK;

fail:
    forward_destroy(forward);
    return status;
}

void forward_destroy(struct forward *forward)
{
    if (!forward)
        return;
    if (forward->kernels) {
        forward->backend->metadata_destroy(forward->metadata);
        for (uint32_t i = 0; forward->attention && i < forward->config->n_layers; i++)
            forward->backend->destroy(forward->attention[i]);
    }
    free(forward->attention);
    rope_destroy(forward->rope);
    free(forward->sequences);
    stage_destroy(forward->stage);
    device_free(forward->options.device, &forward->activations);
    free(forward);
}

bool forward_phases_agree(const struct forward *forward)
{
    return forward->options.context_math == CONTEXT_MATH_COMPUTE &&
           !rope_depends_on_length(forward->rope);
}

/* ---- one pass ---- */

static void check_sequence(const struct forward *forward, const struct forward_sequence *sequence,
                           bool is_context)
{
    const struct forward_options *options = &forward->options;
    uint64_t kv_tokens = (uint64_t)sequence->n_past + sequence->n_query;
    assert(sequence->n_query >= 1 && (is_context || sequence->n_query == 1));
    assert(kv_tokens <= forward->kv_tokens_max);
    assert(sequence->n_blocks <= options->blocks_max);
    assert((uint64_t)sequence->n_blocks * options->block_tokens >= kv_tokens);
}

/* Lays the batch out for the kernels: fills sequences and an arena. */
static void pack(struct forward *forward, const struct forward_sequence *sequences,
                 uint32_t n_sequences, uint32_t n_contexts, const struct staged *staged,
                 struct packed *packed_out)
{
    uint32_t n_tokens = 0, n_logits = 0;
    assert(n_sequences >= 1 && n_sequences <= forward->options.sequences_max);
    assert(n_contexts <= n_sequences);
    for (uint32_t i = 0; i < n_sequences; i++) {
        const struct forward_sequence *sequence = &sequences[i];
        uint32_t kv_len = sequence->n_past + sequence->n_query;
        check_sequence(forward, sequence, i < n_contexts);
        assert(sequence->n_query <= forward->options.tokens_max - n_tokens);
        forward->sequences[i] = (struct attention_sequence){
            .request_id = sequence->request_id,
            .phase = i < n_contexts ? PHASE_CONTEXT : PHASE_GENERATION,
            .query_len = sequence->n_query,
            .kv_len = kv_len,
            .prompt_len = sequence->prompt_len,
            .block_ids = sequence->blocks,
            .n_blocks = sequence->n_blocks,
        };
        for (uint32_t t = 0; t < sequence->n_query; t++) {
            assert(sequence->token_ids[t] < forward->config->vocabulary);
            staged->token_ids[n_tokens + t] = sequence->token_ids[t];
        }
        n_tokens += sequence->n_query;
        if (sequence->wants_logits)
            staged->logit_rows[n_logits++] = n_tokens - 1;
    }
    packed_out->n_tokens = n_tokens;
    packed_out->n_logits = n_logits;
}

static struct staged staged_at(const struct forward *forward, uint8_t *arena)
{
    uint32_t *ids = (uint32_t *)(void *)arena; /* a page */
    return (struct staged){ids, ids + forward->options.tokens_max};
}

/* The step in an arena, on its way to the device. DEVICE_LOST. */
static enum status lay_out(struct forward *forward, const struct forward_sequence *sequences,
                           uint32_t n_sequences, uint32_t n_contexts, struct packed *packed_out)
{
    uint8_t *arena;
    TRY(stage_take(forward->stage, &arena));
    const struct staged staged = staged_at(forward, arena);
    pack(forward, sequences, n_sequences, n_contexts, &staged, packed_out);
    const uint8_t *sent;
    TRY(stage_send(forward->stage, &sent));
    packed_out->token_ids = (const uint32_t *)(const void *)sent; /* a page */
    packed_out->logit_rows = packed_out->token_ids + forward->options.tokens_max;

    const struct attention_step step = {.sequences = forward->sequences,
                                        .n_sequences = n_sequences};
    struct error error = {""};
    enum status status = forward->backend->metadata_prepare(forward->metadata, &step, &forward->kv,
                                                            &error);
    if (status != STATUS_OK)
        log_error("a step that cannot be computed: %s", error.text);
    assert(status == STATUS_OK);
    return status;
}

static void norm(const struct forward *forward, const struct tensor *weight, uint32_t n_rows)
{
    const uint32_t hidden = forward->config->hidden;
    forward->kernels->rms_norm(forward->threads, &(struct rms_norm){
                                                     .x = forward->hidden,
                                                     .x_stride = hidden,
                                                     .w = weight->data,
                                                     .w_dtype = weight->dtype,
                                                     .y = forward->normed,
                                                     .y_stride = hidden,
                                                     .n_tokens = n_rows,
                                                     .n = hidden,
                                                     .eps = forward->config->norm_eps,
                                                 });
}

/* y[row] = weight x[row] + bias, rows without gaps; the caller may change y_stride and accumulate. */
static struct gemm product(const struct tensor *weight, const struct tensor *bias, const float *x,
                           float *y, uint32_t n_rows)
{
    return (struct gemm){
        .x = x,
        .x_stride = weight->n_in,
        .w = weight->data,
        .w_dtype = weight->dtype,
        .w_scales = weight->scales,
        .w_scale_rows = 1,
        .w_scale_columns = weight->scale_columns,
        .w_is_packed = weight->is_packed,
        .bias = bias->data,
        .bias_dtype = bias->dtype,
        .y = y,
        .y_stride = weight->n_out,
        .n_tokens = n_rows,
        .n_in = weight->n_in,
        .n_out = weight->n_out,
    };
}

/* hidden -> attended: norm, Q K V, rotate, append to the cache, attend.
 * qkv row: [Q heads][K heads][V heads], so three products write side by side. */
static void attend(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    const struct model_config *config = forward->config;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t q_width = config->n_heads * config->head_dim;
    const uint32_t kv_width = config->n_kv_heads * config->head_dim;
    float *q = forward->qkv, *k = q + q_width, *v = k + kv_width;

    norm(forward, &weights->attention_norm, n_rows);
    struct gemm products[] = {
        product(&weights->q, &weights->q_bias, forward->normed, q, n_rows),
        product(&weights->k, &weights->k_bias, forward->normed, k, n_rows),
        product(&weights->v, &weights->v_bias, forward->normed, v, n_rows),
    };
    for (int i = 0; i < 3; i++)
        products[i].y_stride = forward->qkv_width;
    forward->kernels->gemm(forward->threads, products, 3);

    struct attention_io io = attention_io_fused(&forward->shape, forward->qkv, forward->qkv_width,
                                                forward->attended, q_width);
    enum status status = forward->backend->forward(forward->attention[layer], forward->metadata,
                                                   &io, NULL);
    assert(status == STATUS_OK);
    (void)status;
}

/* hidden += o(attended) */
static void project(const struct forward *forward, uint32_t layer, const float *attended,
                    uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    struct gemm output = product(&weights->o, &weights->o_bias, attended, forward->hidden, n_rows);
    output.accumulate = true;
    forward->kernels->gemm(forward->threads, &output, 1);
}

/* Rows first .. first + n_rows - 1, at most MLP_ROWS: hidden += down(silu(gate(normed)) * up(normed)) */
static void mlp_rows(const struct forward *forward, const struct layer_weights *weights,
                     uint32_t first, uint32_t n_rows)
{
    const uint32_t hidden = forward->config->hidden, ffn = forward->config->ffn;
    const float *x = forward->normed + (size_t)first * hidden;
    struct gemm inner[] = {
        product(&weights->gate, &weights->gate_bias, x, forward->gate, n_rows),
        product(&weights->up, &weights->up_bias, x, forward->up, n_rows),
    };
    forward->kernels->gemm(forward->threads, inner, 2);
    forward->kernels->gated(forward->threads, &(struct gated){
                                                  .gate = forward->gate,
                                                  .up = forward->up,
                                                  .gate_stride = ffn,
                                                  .up_stride = ffn,
                                                  .y = forward->gate,
                                                  .y_stride = ffn,
                                                  .n_tokens = n_rows,
                                                  .n = ffn,
                                                  .activation = ACTIVATION_SILU,
                                              });
    struct gemm outer = product(&weights->down, &weights->down_bias, forward->gate,
                                forward->hidden + (size_t)first * hidden, n_rows);
    outer.accumulate = true;
    forward->kernels->gemm(forward->threads, &outer, 1);
}

static void mlp(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    norm(forward, &weights->mlp_norm, n_rows);
    for (uint32_t first = 0; first < n_rows; first += MLP_ROWS)
        mlp_rows(forward, weights, first, n_rows - first < MLP_ROWS ? n_rows - first : MLP_ROWS);
}

/* y[i] = x[rows[i]], both without gaps. */
static void gather(const struct forward *forward, const struct packed *packed, const float *x,
                   size_t width, float *y)
{
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = x,
                                                      .dtype = DTYPE_F32,
                                                      .ids = packed->logit_rows,
                                                      .y = y,
                                                      .y_stride = width,
                                                      .n_tokens = packed->n_logits,
                                                      .n = (uint32_t)width,
                                                      .n_rows = packed->n_tokens,
                                                  });
}

/* Behind the last attention only the wanted rows matter: gathers them. Saves one layer's MLP for a whole chunk, and
 * changes no bits, since no operator mixes rows. Returns what is attended now: qkv is free by then. */
static const float *keep_rows(struct forward *forward, const struct packed *packed)
{
    const size_t q_width = (size_t)forward->config->n_heads * forward->config->head_dim;
    if (packed->n_logits == packed->n_tokens || packed->n_logits == 0)
        return forward->attended; /* rows rise: all of them, where they are */
    assert(q_width <= forward->qkv_width);
    float *hidden = forward->hidden;
    gather(forward, packed, hidden, forward->config->hidden, forward->normed);
    forward->hidden = forward->normed;
    forward->normed = hidden;
    gather(forward, packed, forward->attended, q_width, forward->qkv);
    return forward->qkv;
}

/* Enqueues the step. */
static void compute(struct forward *forward, const struct packed *packed, float *logits_out)
{
    const struct model_config *config = forward->config;
    uint32_t n_rows = packed->n_tokens;
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = forward->weights->embedding.data,
                                                      .dtype = forward->weights->embedding.dtype,
                                                      .ids = packed->token_ids,
                                                      .y = forward->hidden,
                                                      .y_stride = config->hidden,
                                                      .n_tokens = n_rows,
                                                      .n = config->hidden,
                                                      .n_rows = config->vocabulary,
                                                  });
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        const float *attended = forward->attended;
        attend(forward, layer, n_rows);
        if (layer + 1 == config->n_layers) {
            attended = keep_rows(forward, packed);
            n_rows = packed->n_logits;
        }
        if (n_rows == 0)
            return;
        project(forward, layer, attended, n_rows);
        mlp(forward, layer, n_rows);
    }
    norm(forward, &forward->weights->norm, n_rows);
    static const struct tensor NO_BIAS = {0};
    struct gemm head = product(&forward->weights->head, &NO_BIAS, forward->normed, logits_out,
                               n_rows);
    forward->kernels->gemm(forward->threads, &head, 1);
}

enum status forward_run(struct forward *forward, const struct forward_sequence *sequences,
                        uint32_t n_sequences, uint32_t n_contexts, float *logits_out)
{
    struct device *device = forward->options.device;
    struct packed packed = {0};
    assert(sequences && n_sequences > 0);
    TRY(lay_out(forward, sequences, n_sequences, n_contexts, &packed));
    compute(forward, &packed, logits_out);
    struct device_ticket ticket = device_record(device, DEVICE_COMPUTE);
    stage_keep(forward->stage, ticket);
    return device_wait(device, ticket);
}

/* ---- warm-up ---- */

/* n sequences of one phase, each at its longest, as far as the tokens go. */
static uint32_t lay_out_dummy(struct forward *forward, enum attention_phase phase, uint32_t n)
{
    uint32_t n_left = forward->options.tokens_max, i = 0;
    for (; i < n && n_left > 0; i++) {
        bool is_context = phase == PHASE_CONTEXT;
        uint32_t n_query = !is_context                       ? 1
                           : n_left < forward->kv_tokens_max ? n_left
                                                             : forward->kv_tokens_max;
        forward->sequences[i] = (struct attention_sequence){.phase = phase,
                                                            .query_len = n_query,
                                                            .kv_len = forward->kv_tokens_max,
                                                            .prompt_len = forward->kv_tokens_max};
        n_left -= n_query;
    }
    return i;
}

/* What attention keeps for a step is the metadata's: one layer touches it for all. */
static void touch_attention(struct forward *forward, enum attention_phase phase, uint32_t n)
{
    const uint32_t q_width = forward->config->n_heads * forward->config->head_dim;
    const struct attention_step step = {.sequences = forward->sequences,
                                        .n_sequences = lay_out_dummy(forward, phase, n),
                                        .is_dummy = true};
    struct attention_io io = attention_io_fused(&forward->shape, forward->qkv, forward->qkv_width,
                                                forward->attended, q_width);
    struct error error = {""};
    enum status status = forward->backend->metadata_prepare(forward->metadata, &step, &forward->kv,
                                                            &error);
    if (status == STATUS_OK)
        status = forward->backend->forward(forward->attention[0], forward->metadata, &io, &error);
    if (status != STATUS_OK)
        log_error("a step for warming up that cannot be laid out: %s", error.text);
    assert(status == STATUS_OK);
    (void)status;
}

enum status forward_warm_up(struct forward *forward)
{
    struct device *device = forward->options.device;
    device_touch(device, &forward->activations, forward->threads);
    touch_attention(forward, PHASE_CONTEXT, 1);
    touch_attention(forward, PHASE_GENERATION, forward->options.sequences_max);
    return device_wait(device, device_record(device, DEVICE_COMPUTE));
}
