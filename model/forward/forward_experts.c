/* Experts in place of an MLP, or beside it (decoder.h). */
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static struct moe_matrix matrix_of(const struct tensor *matrix, const struct tensor *bias)
{
    return (struct moe_matrix){.w = matrix->data,
                               .dtype = matrix->dtype,
                               .scales = matrix->scales,
                               .scale_rows = tensor_scale_rows(matrix),
                               .scale_columns = matrix->scale_columns,
                               .is_packed = matrix->is_packed,
                               .bias = bias ? bias->data : NULL,
                               .bias_dtype = bias ? bias->dtype : DTYPE_F32};
}

static struct moe_expert expert_of(const struct expert_weights *weights)
{
    return (struct moe_expert){.gate = matrix_of(&weights->gate, &weights->gate_bias),
                               .up = matrix_of(&weights->up, &weights->up_bias),
                               .down = matrix_of(&weights->down, &weights->down_bias)};
}

enum status forward_create_experts(struct forward *forward, struct error *error)
{
    const struct model_config *config = forward->config;
    const uint32_t n_experts = config->experts.routing.n_experts;
    if (n_experts == 0)
        return STATUS_OK;
    struct moe_config experts = config->experts;
    experts.x_is_int8 = forward->options.block_activations == BLOCK_ACTIVATIONS_INT8;
    TRY(moe_create(forward->kernels, &experts, forward->mlp_rows_max, &forward->moe, error));
    forward->layer_experts = calloc((size_t)config->n_layers * n_experts,
                                    sizeof *forward->layer_experts);
    if (!forward->layer_experts)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the tables of the experts");
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        for (uint32_t e = 0; config->has_experts[layer] && e < n_experts; e++)
            forward->layer_experts[(size_t)layer * n_experts + e] = expert_of(
                &forward->weights->experts[layer][e]);
    return STATUS_OK;
}

static struct moe_weights weights_of(const struct forward *forward, uint32_t layer)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t n_experts = forward->config->experts.routing.n_experts;
    return (struct moe_weights){
        .router = matrix_of(&weights->router, &weights->router_bias),
        .selection_bias = weights->selection_bias.data,
        .expert_scales = weights->expert_scales.data,
        .experts = forward->layer_experts + (size_t)layer * n_experts,
        .shared = {.gate = matrix_of(&weights->shared_gate, NULL),
                   .up = matrix_of(&weights->shared_up, NULL),
                   .down = matrix_of(&weights->shared_down, NULL)},
        .shared_gate = matrix_of(&weights->shared_scale, NULL),
    };
}

void forward_expert_rows(const struct forward *forward, uint32_t layer, struct rows all,
                         uint32_t first, uint32_t n_rows)
{
    const uint32_t hidden = forward->config->hidden;
    const size_t at = (size_t)first * hidden;
    const struct moe_weights experts = weights_of(forward, layer);
    moe_forward(forward->moe, forward->threads, &experts,
                &(struct moe_io){.x = forward_rows_from(all, at).data,
                                 .x_stride = hidden,
                                 .y = forward_rows_from(forward_end_of_branch(forward), at).data,
                                 .y_stride = hidden,
                                 .n_tokens = n_rows,
                                 .accumulate = !forward->branch.data});
}

/* routed <- router_scale * RMS(x) / sqrt(hidden size) */
static void make_routed(const struct forward *forward, uint32_t layer, struct rows x,
                        uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const uint32_t hidden = forward->config->hidden;
    forward_norm(forward, &forward->weights->layers[layer].router_scale, &NO_BIAS, x,
                 forward->routed, n_rows);
    forward_scale(forward, forward->routed, n_rows, hidden, 1 / sqrtf((float)hidden));
}

void forward_rows_beside(const struct forward *forward, uint32_t layer, struct rows all,
                         uint32_t first, uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const struct moe_weights experts = weights_of(forward, layer);
    const uint32_t hidden = forward->config->hidden;
    const size_t at = (size_t)first * hidden;
    const struct rows x = forward_rows_from(forward->hidden, at);
    const struct rows normed = forward_rows_from(forward->normed, at);
    const struct rows sum = forward_rows_from(forward->branch, at), own = forward->from_experts;
    assert(sum.data && own.data && forward->config->decoder.norm == NORM_RMS);
    forward_mlp_rows(forward, weights, all, first, n_rows);
    forward_norm(forward, &weights->mlp_own_after_norm, &NO_BIAS, sum, sum, n_rows);
    make_routed(forward, layer, x, n_rows);
    forward_norm(forward, &weights->experts_norm, &NO_BIAS, x, normed, n_rows);
    moe_forward(forward->moe, forward->threads, &experts,
                &(struct moe_io){.x = normed.data,
                                 .x_stride = hidden,
                                 .router_x = forward->routed.data,
                                 .router_x_stride = hidden,
                                 .y = own.data,
                                 .y_stride = hidden,
                                 .n_tokens = n_rows});
    forward_norm(forward, &weights->experts_after_norm, &NO_BIAS, own, own, n_rows);
    forward->kernels->scaled_add(forward->threads, &(struct scaled_add){.x = own.data,
                                                                        .x_stride = hidden,
                                                                        .y = sum.data,
                                                                        .y_stride = hidden,
                                                                        .n_tokens = n_rows,
                                                                        .n = hidden,
                                                                        .scale = 1});
}
