#include "model/forward/forward_parts.h"

#include <stdlib.h>

struct moe_matrix forward_expert_matrix(const struct tensor *matrix, const struct tensor *bias)
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
    return (struct moe_expert){.gate = forward_expert_matrix(&weights->gate, &weights->gate_bias),
                               .up = forward_expert_matrix(&weights->up, &weights->up_bias),
                               .down = forward_expert_matrix(&weights->down, &weights->down_bias)};
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
