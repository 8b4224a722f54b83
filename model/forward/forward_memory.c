/* What a forward pass computes in: the sizes of its activations, and their places in one allocation. */
#include "kernels/cuda/sampling_parameters.h"
#include "model/config/encoder_config.h"
#include "model/config/layer_shape.h"
#include "model/forward/forward_parts.h"
#include "model/kernel_choice.h"

#include <stdlib.h>

#define ALIGNMENT 64u /* bytes, of each part */

/* A device with its own kernels needs no small working set, but many rows to keep it busy. */
static uint32_t mlp_rows_max(const struct forward_options *options)
{
    bool takes_all = kernel_choice_is_own(options->device);
    return takes_all || options->tokens_max < MLP_ROWS ? options->tokens_max : MLP_ROWS;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Elements of a token that a layer hands to its output product. */
static uint32_t attended_width(const struct model_config *config)
{
    return larger(model_attended_width(config), forward_recurrent_values(config));
}

/* Products of latents: of GEMMS_MAX heads at a time, each with rows of its own; or of Q and the cached row. */
static size_t heads_workspace_bytes(const struct model_config *config,
                                    const struct kernels *kernels, uint32_t tokens)
{
    const struct latent_shape *latent = &config->decoder.latent;
    const uint32_t widest = latent->nope_dim > latent->dim ? latent->nope_dim : latent->dim;
    if (latent->dim == 0)
        return 0;
    const size_t heads = GEMMS_MAX * gemm_workspace_bytes(kernels, tokens, widest);
    const size_t q = latent->q_rank > 0 ? gemm_workspace_bytes(kernels, tokens, latent->q_rank) : 0;
    return heads > q ? heads : q;
}

/* The most that products of a step use. Q, K and V read the same rows, and so do gate and up. */
static size_t workspace_bytes(const struct model_config *config, const struct kernels *kernels,
                              const struct forward_options *options)
{
    const uint32_t tokens = options->tokens_max;
    const uint32_t attended = larger(attended_width(config), config->decoder.layer_inputs.width);
    const size_t of_heads = heads_workspace_bytes(config, kernels, tokens);
    const size_t inner = gemm_workspace_bytes(kernels, mlp_rows_max(options),
                                              layers_ffn_max(config));
    /* Of a layer with recurrent state some matrices are never rounded: with the others these are two kinds for the same rows. */
    const size_t kinds = forward_recurrent_values(config) > 0 ? 2 : 1;
    const size_t outer = kinds *
                         gemm_workspace_bytes(kernels, tokens, larger(config->hidden, attended));
    const size_t head = gemm_workspace_bytes(kernels, options->sequences_max, config->hidden);
    size_t most = inner > outer ? inner : outer;
    most = most > of_heads ? most : of_heads;
    return most > head ? most : head;
}

/* Whether what a branch computes is changed before it is added to the residual stream. */
static bool changes_branches(const struct model_config *config)
{
    const enum norm_place place = config->decoder.norm_place;
    return (place != NORM_BEFORE && place != NORM_AFTER_SUM) || config->decoder.residual_scale != 0;
}

/* Places the activations one after the other in one allocation. Without base, only counts the bytes. */
static size_t lay_out_activations(struct forward *forward, uint8_t *base)
{
    const struct model_config *config = forward->config;
    const struct device *device = forward->options.device;
    const size_t tokens = forward->options.tokens_max, mlp_rows = forward->mlp_rows_max;
    const enum dtype dtype = forward->dtype;
    const struct latent_shape *latent = &config->decoder.latent;
    const bool writes_to_host = !device || device_reads_host(device);
    const size_t inputs = (size_t)config->n_layers * config->decoder.layer_inputs.width;
    const size_t input_rows = larger(INPUT_ROWS, forward->options.sequences_max);
    const size_t rows = forward->options.sequences_max, found = forward_finds_on(device) ? rows : 0;
    const size_t rows_beside = config->experts_are_beside_mlp ? mlp_rows : 0;
    const struct {
        struct rows *rows;
        size_t n_rows, width;
        enum dtype dtype, room; /* the type of the elements, and the type that must fit */
    } parts[] = {
        {&forward->hidden, tokens, config->hidden, DTYPE_F32, DTYPE_F32},
        {&forward->normed, tokens, config->hidden, dtype, DTYPE_F32},
        {&forward->qkv, tokens, forward->qkv_width, dtype, dtype},
        {&forward->attended, tokens, attended_width(config), dtype, dtype},
        {&forward->latent_q, latent->dim > 0 ? tokens : 0,
         (size_t)config->n_heads * latent_row(latent), dtype, dtype},
        {&forward->latent_sums, latent->dim > 0 ? tokens : 0, (size_t)config->n_heads * latent->dim,
         dtype, dtype},
        {&forward->convolved, tokens, forward_recurrent_channels(config), dtype, dtype},
        {&forward->gate, mlp_rows, layers_ffn_max(config), dtype, dtype},
        {&forward->up, config->decoder.has_no_gate ? 0 : mlp_rows, layers_ffn_max(config), dtype,
         dtype},
        {&forward->inputs, tokens, inputs, DTYPE_F32, DTYPE_F32},
        {&forward->input_rows, tokens < input_rows ? tokens : input_rows, inputs, DTYPE_F32,
         DTYPE_F32},
        {&forward->input_gate, tokens, config->decoder.layer_inputs.width, DTYPE_F32, DTYPE_F32},
        {&forward->routed, rows_beside, config->hidden, DTYPE_F32, DTYPE_F32},
        {&forward->from_experts, rows_beside, config->hidden, DTYPE_F32, DTYPE_F32},
        {&forward->branch, changes_branches(config) ? tokens : 0, config->hidden, DTYPE_F32,
         DTYPE_F32},
        {&forward->adapters.low, mlp_rows, forward->options.adapter_rank_max, DTYPE_F32, DTYPE_F32},
        {&forward->workspace, 1, forward->workspace_bytes / sizeof(float), DTYPE_F32, DTYPE_F32},
        {&forward->logits, writes_to_host ? 0 : rows, config->vocabulary, DTYPE_F32, DTYPE_F32},
        {&forward->penalised, found, config->vocabulary, DTYPE_F32, DTYPE_F32},
        {&forward->found, found, sizeof(struct sampling_result) / sizeof(float), DTYPE_F32,
         DTYPE_F32},
    };
    size_t end = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t bytes = parts[i].n_rows * parts[i].width * dtype_bytes(parts[i].room);
        *parts[i].rows = (struct rows){base && bytes > 0 ? base + end : NULL, parts[i].dtype};
        end += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return end;
}

/* Encoder and decoder take turns in the same memory. */
static size_t lay_out_all(struct forward *forward, struct forward_encoder *encoder, uint8_t *base)
{
    size_t end = lay_out_activations(forward, base);
    if (!encoder)
        return end;
    const size_t of_encoder = lay_out_activations(&encoder->stack, base);
    return forward_encoder_place(encoder, base, end > of_encoder ? end : of_encoder);
}

enum status forward_create_memory(struct forward *forward, struct error *error)
{
    const struct forward_options *options = &forward->options;
    forward->sequences = calloc(options->sequences_max, sizeof *forward->sequences);
    const size_t bytes = lay_out_all(forward, forward->encoder, NULL);
    const bool has_window = cache_groups_has_window(&options->groups);
    if (has_window)
        forward->tables = calloc((size_t)options->sequences_max * options->blocks_max *
                                     cache_groups_count(&options->groups),
                                 sizeof *forward->tables);
    if (!forward->sequences || (has_window && !forward->tables))
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    enum status status = device_allocate(options->device, DEVICE_ACTIVATIONS, bytes,
                                         &forward->activations);
    if (status == STATUS_NO_MEMORY)
        return device_no_memory(options->device, "activations of a step", bytes, error);
    TRY(status);
    (void)lay_out_all(forward, forward->encoder, forward->activations.base);
    return STATUS_OK;
}

static uint32_t qkv_width(const struct model_config *config)
{
    const uint32_t n_gates = config->decoder.has_output_gate ? config->n_heads : 0;
    const uint32_t narrow = (config->n_heads + 2 * config->n_kv_heads + n_gates) * config->head_dim;
    const uint32_t wide = (config->n_heads + 2 * config->wide_kv_heads + n_gates) *
                          config->wide_head_dim;
    const uint32_t heads = larger(narrow, wide);
    const uint32_t latents = forward_latent_width(config);
    return larger(latents > 0 ? latents : heads, forward_recurrent_width(config));
}

struct forward forward_stack_of(const struct model_config *config, const struct kernels *kernels,
                                const struct forward_options *options)
{
    return (struct forward){
        .config = config,
        .options = *options,
        .dtype = kernel_choice_activations(options->device),
        .kv_tokens_max = forward_kv_tokens_max(config, options),
        .qkv_width = qkv_width(config),
        .mlp_rows_max = mlp_rows_max(options),
        .workspace_bytes = workspace_bytes(config, kernels, options),
    };
}

size_t forward_activation_bytes(const struct model *model, const struct forward_options *options)
{
    const struct model_config *config = model_get_config(model);
    const struct kernels *kernels = model_kernels(model);
    struct forward shape = forward_stack_of(config, kernels, options);
    const struct moe_config *experts = &config->experts;
    struct forward_encoder encoder;
    if (model_has_encoder(config))
        forward_encoder_describe(config, kernels, options, &encoder);
    size_t bytes = lay_out_all(&shape, model_has_encoder(config) ? &encoder : NULL, NULL);
    if (experts->routing.n_experts > 0)
        bytes += model_kernels(model)->moe->workspace_bytes(experts, shape.mlp_rows_max);
    return bytes;
}
