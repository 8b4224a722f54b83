#include "base/log/log.h"
#include "model/config/encoder_config.h"
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define TOKENS_MAX_MAX (1u << 20)

/* Tokens of a block of the scratch memory, in which a layer of the encoder keeps its own K and V. Any number gives the same bits. */
enum { SCRATCH_TOKENS = 64 };

/* ---- creation ---- */

enum status forward_check_encoder(const struct model_config *config,
                                  const struct forward_options *options, struct error *error)
{
    if (!model_has_encoder(config))
        return STATUS_OK;
    if (options->context_math != CONTEXT_MATH_COMPUTE)
        return error_set(error, STATUS_UNSUPPORTED,
                         "attention_math is %s, but the model has an encoder: expected compute",
                         context_math_name(options->context_math));
    if (options->sinks.window > 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "sink_tokens is %u, but the model has an encoder: expected 0",
                         options->sinks.sinks);
    return forward_check_switches(&options->attention, "the model has an encoder", error);
}

static uint32_t n_scratch_blocks(const struct forward_options *options)
{
    return options->encoder_tokens_max / SCRATCH_TOKENS + options->sequences_max;
}

void forward_encoder_describe(const struct model_config *config, const struct kernels *kernels,
                              const struct forward_options *options,
                              struct forward_encoder *encoder_out)
{
    struct forward_options of_encoder = {
        .block_tokens = SCRATCH_TOKENS,
        .block_activations = options->block_activations,
        .tokens_max = options->encoder_tokens_max,
        .sequences_max = options->sequences_max,
        .blocks_max = n_scratch_blocks(options),
        .threads = options->threads,
        .device = options->device,
    };
    *encoder_out = (struct forward_encoder){.token_ids = NULL};
    encoder_config(config, &encoder_out->config);
    encoder_out->stack = forward_stack_of(&encoder_out->config, kernels, &of_encoder);
}

size_t forward_encoder_place(struct forward_encoder *encoder, uint8_t *base, size_t at)
{
    const struct model_config *config = &encoder->config;
    encoder->scratch = (struct rows){base ? base + at : NULL, DTYPE_F32};
    return at + (size_t)encoder->stack.options.blocks_max * SCRATCH_TOKENS * 2 * config->n_heads *
                    config->head_dim * sizeof(float);
}

static struct weights weights_of(const struct weights *weights, uint32_t n_layers)
{
    const struct encoder_ends *ends = &weights->encoder;
    return (struct weights){
        .embedding = weights->embedding,
        .embedding_norm = ends->embedding_norm,
        .embedding_norm_bias = ends->embedding_norm_bias,
        .positions = ends->positions,
        .norm = ends->norm,
        .norm_bias = ends->norm_bias,
        .layers = weights->layers + n_layers,
        .experts = weights->experts + n_layers,
    };
}

enum status forward_encoder_begin(struct forward *forward, struct error *error)
{
    const struct forward_options *options = &forward->options;
    const uint32_t n_tokens = options->encoder_tokens_max;
    if (n_tokens < 1 || n_tokens > TOKENS_MAX_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "encoder_tokens_max is %u, expected 1 .. %u: the model has an encoder",
                         n_tokens, TOKENS_MAX_MAX);
    struct forward_encoder *encoder = calloc(1, sizeof *encoder);
    forward->encoder = encoder;
    if (!encoder)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    forward_encoder_describe(forward->config, forward->kernels, options, encoder);
    encoder->weights = weights_of(forward->weights, forward->config->n_layers);
    struct forward *stack = &encoder->stack;
    stack->weights = &encoder->weights;
    stack->kernels = forward->kernels;
    stack->backend = forward->backend;
    stack->threads = forward->threads;
    encoder->scratch_blocks = calloc(stack->options.blocks_max, sizeof *encoder->scratch_blocks);
    encoder->token_ids = calloc(n_tokens, sizeof *encoder->token_ids);
    encoder->sequences = calloc(options->sequences_max, sizeof *encoder->sequences);
    encoder->cross = calloc(forward->config->n_layers, sizeof *encoder->cross);
    if (!encoder->scratch_blocks || !encoder->token_ids || !encoder->sequences || !encoder->cross)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    for (uint32_t i = 0; i < stack->options.blocks_max; i++)
        encoder->scratch_blocks[i] = i;
    return STATUS_OK;
}

uint32_t forward_text_tokens_max(const struct forward *forward)
{
    const uint32_t context = forward->config->context_tokens;
    const uint32_t most = forward->options.encoder_tokens_max;
    return !forward->encoder ? 0 : most < context ? most : context;
}

/* The encoder's layers use the scratch memory in turn. */
static enum status create_self(struct forward *forward, struct error *error)
{
    struct forward_encoder *encoder = forward->encoder;
    struct forward *stack = &encoder->stack;
    const struct model_config *config = &encoder->config;
    TRY(forward_describe_attention(stack, error));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        TRY(forward_create_attention(stack, layer, error));
    const struct attention_limits limits = {
        .n_sequences_max = stack->options.sequences_max,
        .n_tokens_max = stack->options.tokens_max,
        .kv_len_max = forward_text_tokens_max(forward),
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .cache = stack->shape.cache,
        .mask = MASK_BIDIRECTIONAL,
        .block_tokens_min = SCRATCH_TOKENS,
    };
    stack->kv = kv_view_dense(encoder->scratch.data, stack->options.blocks_max, 1,
                              config->n_kv_heads, SCRATCH_TOKENS, config->head_dim, limits.cache);
    stack->kv.layer_stride = 0;
    return forward->backend->metadata_create(&limits, forward->threads, &encoder->self, error);
}

/* The attention of the decoder's layers to the encoder: without positions, a bias or a mask. Its places in a block and its scales are
 * those of self attention. */
static enum status create_cross(struct forward *forward, struct error *error)
{
    struct forward_encoder *encoder = forward->encoder;
    const struct model_config *config = forward->config;
    struct attention_config attention = forward->shape;
    attention.keys = KEYS_CROSS;
    attention.mask = MASK_BIDIRECTIONAL;
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        attention.layer_index = layer;
        forward_scale_cache(forward, layer, &attention);
        TRY(forward->backend->create(&attention, forward->threads, &encoder->cross[layer], error));
    }
    const struct attention_limits limits = {
        .n_sequences_max = forward->options.sequences_max,
        .n_tokens_max = forward->options.tokens_max,
        .n_kv_tokens_max = forward->options.encoder_tokens_max,
        .kv_len_max = forward_text_tokens_max(forward),
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .cache = attention.cache,
        .keys = KEYS_CROSS,
        .mask = MASK_BIDIRECTIONAL,
        .block_tokens_min = forward->options.block_tokens,
    };
    return forward->backend->metadata_create(&limits, forward->threads, &encoder->metadata, error);
}

enum status forward_encoder_create(struct forward *forward, struct error *error)
{
    assert(cache_groups_count(&forward->options.groups) == 1 && "no layer has a window");
    assert(forward->encoder->stack.qkv_width >=
           2 * forward->config->n_kv_heads * forward->config->head_dim);
    TRY(create_self(forward, error));
    return create_cross(forward, error);
}

void forward_encoder_destroy(struct forward *forward)
{
    struct forward_encoder *encoder = forward->encoder;
    if (!encoder)
        return;
    struct forward *stack = &encoder->stack;
    for (uint32_t i = 0; stack->attention && i < encoder->config.n_layers; i++)
        forward->backend->destroy(stack->attention[i]);
    for (uint32_t i = 0; encoder->cross && i < forward->config->n_layers; i++)
        forward->backend->destroy(encoder->cross[i]);
    if (encoder->self)
        forward->backend->metadata_destroy(encoder->self);
    if (encoder->metadata)
        forward->backend->metadata_destroy(encoder->metadata);
    free(stack->attention);
    free(stack->relative_bias);
    free(encoder->scratch_blocks);
    free(encoder->token_ids);
    free(encoder->sequences);
    free(encoder->cross);
    free(encoder);
    forward->encoder = NULL;
}

/* ---- steps ---- */

/* A step that does not fit is a programmer's error. */
static void prepare(const struct forward *forward, struct attention_metadata *metadata,
                    const struct attention_step *step, const struct kv_view *kv)
{
    struct error error = {""};
    enum status status = forward->backend->metadata_prepare(metadata, step, kv, &error);
    if (status != STATUS_OK)
        log_error("a step of an encoder that cannot be computed: %s", error.text);
    assert(status == STATUS_OK);
    (void)status;
}

static void check_text(const struct forward *forward, const struct forward_text *text)
{
    const uint64_t room = (uint64_t)text->n_cross_blocks * forward->options.block_tokens;
    assert(text->n_tokens >= 1 && text->n_tokens <= forward_text_tokens_max(forward));
    assert(text->cross_blocks && room >= text->n_tokens);
    (void)room;
}

/* Lays the texts out for the encoder's layers: each begins with a block of the scratch memory. Returns their tokens. */
static uint32_t lay_out_texts(struct forward *forward, const struct forward_text *texts,
                              uint32_t n_texts)
{
    struct forward_encoder *encoder = forward->encoder;
    uint32_t n_tokens = 0, n_blocks = 0;
    for (uint32_t i = 0; i < n_texts; i++) {
        const uint32_t n = texts[i].n_tokens;
        const uint32_t needed = (n + SCRATCH_TOKENS - 1) / SCRATCH_TOKENS;
        check_text(forward, &texts[i]);
        assert(n <= forward->options.encoder_tokens_max - n_tokens);
        encoder->sequences[i] = (struct attention_sequence){
            .request_id = texts[i].request_id,
            .phase = PHASE_CONTEXT,
            .query_len = n,
            .kv_len = n,
            .prompt_len = n,
            .block_ids = encoder->scratch_blocks + n_blocks,
            .n_blocks = needed,
        };
        for (uint32_t t = 0; t < n; t++) {
            assert(texts[i].token_ids[t] < forward->config->vocabulary);
            encoder->token_ids[n_tokens + t] = texts[i].token_ids[t];
        }
        n_tokens += n;
        n_blocks += needed;
    }
    assert(n_blocks <= encoder->stack.options.blocks_max);
    return n_tokens;
}

static void count_layer(void *arg)
{
    forward_count_layer(arg);
}

/* texts -> the stack's normed: the encoder's last rows. Returns how many. */
static uint32_t compute_texts(struct forward *forward, const struct forward_text *texts,
                              uint32_t n_texts)
{
    struct forward_encoder *encoder = forward->encoder;
    const uint32_t n_tokens = lay_out_texts(forward, texts, n_texts);
    const struct attention_step step = {.sequences = encoder->sequences, .n_sequences = n_texts};
    prepare(forward, encoder->self, &step, &encoder->stack.kv);
    const struct packed_step packed = {
        .positions = encoder->self->positions,
        .metadata = encoder->self,
        .token_ids = encoder->token_ids,
        .n_sequences = n_texts,
        .n_tokens = n_tokens,
        .keeps_rows = true,
    };
    forward_on_layer(&encoder->stack, count_layer, forward);
    forward_compute(&encoder->stack, &packed, (struct rows){NULL, DTYPE_F32});
    return n_tokens;
}

/* K and V of a layer of the decoder, side by side in the stack's qkv, and from there into the cross blocks. */
static void write_layer(struct forward *forward, uint32_t layer, uint32_t n_tokens)
{
    const struct forward_encoder *encoder = forward->encoder;
    const struct forward *stack = &encoder->stack;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t width = forward->config->n_kv_heads * forward->config->head_dim;
    const struct rows k = stack->qkv, v = forward_rows_from(k, width);
    struct gemm products[] = {
        forward_product(&weights->cross_k, &weights->cross_k_bias, stack->normed, k, n_tokens),
        forward_product(&weights->cross_v, &weights->cross_v_bias, stack->normed, v, n_tokens),
    };
    products[0].y_stride = products[1].y_stride = 2 * (uint64_t)width;
    forward_multiply(stack, products, 2);
    const struct attention_io io = {
        .k = k.data, .v = v.data, .k_stride = 2 * (uint64_t)width, .v_stride = 2 * (uint64_t)width};
    enum status status = forward->backend->kv_update(encoder->cross[layer], encoder->metadata, &io,
                                                     NULL);
    assert(status == STATUS_OK);
    (void)status;
    forward_count_layer(forward);
}

enum status forward_encode(struct forward *forward, const struct forward_text *texts,
                           uint32_t n_texts)
{
    struct device *device = forward->options.device;
    struct forward_encoder *encoder = forward->encoder;
    assert(encoder && forward->kv.base && "the model has an encoder, and a pool is attached");
    assert(texts && n_texts >= 1 && n_texts <= forward->options.sequences_max);
    device_bind(device);
    forward->n_found = forward->n_kept = 0; /* the rows of the last step are gone */
    const uint32_t n_tokens = compute_texts(forward, texts, n_texts);
    for (uint32_t i = 0; i < n_texts; i++)
        encoder->sequences[i] = (struct attention_sequence){
            .request_id = texts[i].request_id,
            .phase = PHASE_CONTEXT,
            .kv_len = texts[i].n_tokens,
            .new_len = texts[i].n_tokens,
            .block_ids = texts[i].cross_blocks,
            .n_blocks = texts[i].n_cross_blocks,
        };
    const struct attention_step step = {.sequences = encoder->sequences, .n_sequences = n_texts};
    prepare(forward, encoder->metadata, &step, &forward->kv);
    for (uint32_t layer = 0; layer < forward->config->n_layers; layer++)
        write_layer(forward, layer, n_tokens);
    return device_wait(device, device_record(device, DEVICE_COMPUTE));
}

const struct attention_metadata *forward_prepare_cross(struct forward *forward,
                                                       const struct forward_sequence *sequences,
                                                       uint32_t n_sequences, uint32_t n_contexts)
{
    struct forward_encoder *encoder = forward->encoder;
    for (uint32_t i = 0; i < n_sequences; i++) {
        const struct forward_sequence *sequence = &sequences[i];
        assert(sequence->n_cross_tokens >= 1 && "forward_encode comes first");
        encoder->sequences[i] = (struct attention_sequence){
            .request_id = sequence->request_id,
            .phase = i < n_contexts ? PHASE_CONTEXT : PHASE_GENERATION,
            .query_len = sequence->n_query,
            .kv_len = sequence->n_cross_tokens,
            .query_index = sequence->n_past,
            .block_ids = sequence->cross_blocks,
            .n_blocks = sequence->n_cross_blocks,
        };
    }
    const struct attention_step step = {.sequences = encoder->sequences,
                                        .n_sequences = n_sequences};
    prepare(forward, encoder->metadata, &step, &forward->kv);
    return encoder->metadata;
}

void forward_cross_attend(const struct forward *forward, const struct packed_step *packed,
                          uint32_t layer)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t width = forward->config->n_heads * forward->config->head_dim;
    const struct rows x = forward_before_branch(forward, &weights->cross_norm,
                                                &weights->cross_norm_bias, packed->n_tokens);
    struct gemm q = forward_product(&weights->cross_q, &weights->cross_q_bias, x, forward->qkv,
                                    packed->n_tokens);
    forward_multiply(forward, &q, 1);
    const struct attention_io io = {.q = forward->qkv.data,
                                    .q_stride = width,
                                    .output = forward->attended.data,
                                    .output_stride = width};
    enum status status = forward->backend->forward(forward->encoder->cross[layer], packed->cross,
                                                   &io, NULL);
    assert(status == STATUS_OK);
    (void)status;
}

/* Lays out n dummies of as many tokens as the limits allow. */
static uint32_t lay_out_dummies(struct forward_encoder *encoder, enum attention_phase phase,
                                uint32_t n_queries, uint32_t n_keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        encoder->sequences[i] = (struct attention_sequence){
            .phase = phase, .query_len = n_queries, .kv_len = n_keys, .prompt_len = n_queries};
    return n;
}

static void touch(struct forward *forward, const struct forward *stack,
                  struct attention_metadata *metadata, const struct attention *attention,
                  uint32_t n)
{
    const uint32_t width = stack->config->n_heads * stack->config->head_dim;
    const struct attention_step step = {
        .sequences = forward->encoder->sequences, .n_sequences = n, .is_dummy = true};
    struct attention_io io = attention_io_fused(&stack->shape, stack->qkv.data, stack->qkv_width,
                                                stack->attended.data, width);
    struct error error = {""};
    prepare(forward, metadata, &step, &stack->kv);
    enum status status = forward->backend->forward(attention, metadata, &io, &error);
    if (status != STATUS_OK)
        log_error("a step for warming up that cannot be computed: %s", error.text);
    assert(status == STATUS_OK);
}

void forward_encoder_touch(struct forward *forward)
{
    struct forward_encoder *encoder = forward->encoder;
    const struct forward_options *options = &forward->options;
    const uint32_t n_text = forward_text_tokens_max(forward);
    const uint32_t n_query = options->tokens_max < forward->kv_tokens_max ? options->tokens_max
                                                                          : forward->kv_tokens_max;
    const uint32_t n_rows = options->sequences_max < options->tokens_max ? options->sequences_max
                                                                         : options->tokens_max;
    touch(forward, &encoder->stack, encoder->self, encoder->stack.attention[0],
          lay_out_dummies(encoder, PHASE_CONTEXT, n_text, n_text, 1));
    touch(forward, forward, encoder->metadata, encoder->cross[0],
          lay_out_dummies(encoder, PHASE_CONTEXT, n_query, n_text, 1));
    touch(forward, forward, encoder->metadata, encoder->cross[0],
          lay_out_dummies(encoder, PHASE_GENERATION, 1, n_text, n_rows));
}
