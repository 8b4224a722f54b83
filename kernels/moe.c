#include "kernels/moe.h"

#include "kernels/moe_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOE_ALIGNMENT = 64 };

/* ---- checking a configuration ---- */

static enum status check_width(const char *name, uint32_t width, struct error *error)
{
    if (width == 0 || width > MOE_WIDTH_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %u, must be from 1 to %u", name,
                         width, MOE_WIDTH_MAX);
    return STATUS_OK;
}

static enum status check_groups(const struct moe_routing *routing, struct error *error)
{
    if (routing->n_groups == 0)
        return STATUS_OK;
    if (routing->n_experts % routing->n_groups != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_groups is %u: %u experts cannot be divided into groups of equal size",
                         routing->n_groups, routing->n_experts);
    uint32_t size = routing->n_experts / routing->n_groups;
    if (routing->top_groups == 0 || routing->top_groups > routing->n_groups)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "top_groups is %u, must be from 1 to n_groups %u", routing->top_groups,
                         routing->n_groups);
    if (routing->top_k > routing->top_groups * size)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "top_k is %u: %u groups have only %u experts", routing->top_k,
                         routing->top_groups, routing->top_groups * size);
    if (routing->group_score > MOE_GROUP_TWO)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "group_score is %d: there is no such score", (int)routing->group_score);
    if (routing->group_score == MOE_GROUP_TWO && (size < 2 || routing->score != MOE_SIGMOID))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "group_score is the sum of two experts: it needs sigmoid scores and "
                         "groups of at least 2 experts, not %u",
                         size);
    return STATUS_OK;
}

static enum status check_routing(const struct moe_routing *routing, struct error *error)
{
    if (routing->n_experts == 0 || routing->n_experts > MOE_EXPERTS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_experts is %u, must be from 1 to %u",
                         routing->n_experts, MOE_EXPERTS_MAX);
    if (routing->top_k == 0 || routing->top_k > routing->n_experts)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "top_k is %u, must be from 1 to n_experts %u", routing->top_k,
                         routing->n_experts);
    if (routing->score > MOE_SIGMOID)
        return error_set(error, STATUS_INVALID_ARGUMENT, "score is %d: there is no such score",
                         (int)routing->score);
    if (!isfinite(routing->scale) || routing->scale == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "scale is %g, must be finite and not 0",
                         (double)routing->scale);
    return check_groups(routing, error);
}

static enum status check_activation(const struct moe_config *config, struct error *error)
{
    if (config->activation > ACTIVATION_RELU)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "activation is %d: there is no such activation", (int)config->activation);
    if (!isfinite(config->alpha) || config->alpha < 0 ||
        (config->activation != ACTIVATION_SILU && config->alpha > 0))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "alpha is %g, must be positive, or 0 for none; only SiLU takes one",
                         (double)config->alpha);
    if (!isfinite(config->beta))
        return error_set(error, STATUS_INVALID_ARGUMENT, "beta is %g, must be finite",
                         (double)config->beta);
    if (!isfinite(config->limit) || config->limit < 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "limit is %g, must be positive, or 0 for none", (double)config->limit);
    return STATUS_OK;
}

static enum status check_config(const struct moe_config *config, uint32_t n_tokens_max,
                                struct error *error)
{
    TRY(check_width("n_in", config->n_in, error));
    TRY(check_width("n_inner", config->n_inner, error));
    if (config->n_shared_inner > 0)
        TRY(check_width("n_shared_inner", config->n_shared_inner, error));
    TRY(check_width("n_tokens_max", n_tokens_max, error));
    TRY(check_routing(&config->routing, error));
    return check_activation(config, error);
}

enum status moe_create(const struct kernels *kernels, const struct moe_config *config,
                       uint32_t n_tokens_max, struct moe **moe_out, struct error *error)
{
    TRY(check_config(config, n_tokens_max, error));
    struct moe *moe = calloc(1, sizeof *moe);
    if (!moe)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a mixture of experts");
    moe->config = *config;
    moe->kernels = kernels;
    moe->n_tokens_max = n_tokens_max;
    moe->workspace_bytes = kernels->moe->workspace_bytes(config, n_tokens_max);
    assert(moe->workspace_bytes % MOE_ALIGNMENT == 0); /* aligned_alloc needs it */
    moe->workspace = aligned_alloc(MOE_ALIGNMENT, moe->workspace_bytes);
    if (!moe->workspace) {
        size_t bytes = moe->workspace_bytes;
        moe_destroy(moe);
        return error_set(error, STATUS_NO_MEMORY,
                         "no memory for %zu bytes, the workspace of the experts for %u tokens",
                         bytes, n_tokens_max);
    }
    *moe_out = moe;
    return STATUS_OK;
}

void moe_destroy(struct moe *moe)
{
    if (!moe)
        return;
    free(moe->workspace);
    free(moe);
}

void moe_forward(struct moe *moe, struct thread_pool *pool, const struct moe_weights *weights,
                 const struct moe_io *io)
{
    assert(io->n_tokens <= moe->n_tokens_max);
    moe->kernels->moe->forward(moe, pool, weights, io);
}

/* ---- checking weights ---- */

static enum status check_product(const char *owner, const char *name, struct gemm product,
                                 struct error *error)
{
    struct error inner = {""};
    enum status status = gemm_check(&product, &inner);
    if (status != STATUS_OK)
        return error_set(error, status, "%s%s: %s", owner, name, inner.text);
    return STATUS_OK;
}

static enum status check_expert(const struct moe_config *config, const char *owner,
                                const struct moe_expert *expert, bool is_shared,
                                struct error *error)
{
    const bool is_interleaved = config->is_interleaved && !is_shared;
    const uint32_t n_in = config->n_in;
    const uint32_t n_inner = is_shared ? config->n_shared_inner : config->n_inner;
    const uint32_t n_gate = is_interleaved ? 2 * n_inner : n_inner;
    if (is_interleaved && expert->up.w)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s up is set: gate holds its rows, interleaved", owner);
    TRY(check_product(owner, " gate", moe_product(&expert->gate, n_gate, n_in), error));
    if (!is_interleaved)
        TRY(check_product(owner, " up", moe_product(&expert->up, n_inner, n_in), error));
    return check_product(owner, " down", moe_product(&expert->down, n_in, n_inner), error);
}

static enum status check_shared(const struct moe_config *config, const struct moe_weights *weights,
                                struct error *error)
{
    if (config->n_shared_inner == 0) {
        if (weights->shared.gate.w || weights->shared.down.w || weights->shared_gate.w)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "a shared expert is set: n_shared_inner is 0");
        return STATUS_OK;
    }
    TRY(check_expert(config, "shared expert's", &weights->shared, true, error));
    if (weights->shared_gate.w)
        TRY(check_product("shared_gate", "", moe_product(&weights->shared_gate, 1, config->n_in),
                          error));
    return STATUS_OK;
}

static bool has_packed(const struct moe_expert *expert)
{
    return expert->gate.is_packed || expert->up.is_packed || expert->down.is_packed;
}

enum status moe_check_weights(const struct moe *moe, const struct moe_weights *weights,
                              struct error *error)
{
    const struct moe_config *config = &moe->config;
    TRY(check_product("router", "",
                      moe_product(&weights->router, config->routing.n_experts, config->n_in),
                      error));
    if (weights->selection_bias && config->routing.score != MOE_SIGMOID)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "selection_bias is set: only sigmoid scores have one");
    if (!weights->experts)
        return error_set(error, STATUS_INVALID_ARGUMENT, "experts is NULL");
    for (uint32_t e = 0; e < config->routing.n_experts; e++) {
        char owner[32];
        snprintf(owner, sizeof owner, "expert %u's", e);
        if (!moe->kernels->gemm_pack && has_packed(&weights->experts[e]))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s weights are packed, the kernels %s do not take packed weights",
                             owner, moe->kernels->name);
        TRY(check_expert(config, owner, &weights->experts[e], false, error));
    }
    return check_shared(config, weights, error);
}

/* ---- for the back ends ---- */

void moe_choose(const struct moe *moe, const struct moe_weights *weights, const float *logits,
                uint32_t *ids_out, float *weights_out)
{
    const struct moe_routing *routing = &moe->config.routing;
    moe_route(routing, weights->selection_bias, logits, ids_out, weights_out);
    for (uint32_t rank = 0; weights->expert_scales && rank < routing->top_k; rank++)
        weights_out[rank] *= weights->expert_scales[ids_out[rank]];
}

void *moe_space_take(struct moe_space *space, size_t n)
{
    assert(space->used % MOE_ALIGNMENT == 0);
    char *start = space->base ? space->base + space->used : NULL;
    space->used += (n * sizeof(float) + MOE_ALIGNMENT - 1) / MOE_ALIGNMENT * MOE_ALIGNMENT;
    return start;
}

struct gemm moe_product(const struct moe_matrix *matrix, uint32_t n_out, uint32_t n_in)
{
    return (struct gemm){
        .x_stride = n_in,
        .w = matrix->w,
        .w_dtype = matrix->dtype,
        .w_scales = matrix->scales,
        .w_scale_rows = matrix->scale_rows,
        .w_scale_columns = matrix->scale_columns,
        .w_is_packed = matrix->is_packed,
        .bias = matrix->bias,
        .bias_dtype = matrix->bias_dtype,
        .y_stride = n_out,
        .n_in = n_in,
        .n_out = n_out,
    };
}

void moe_split(const float *gate_up, uint32_t n_inner, float *gate_out, float *up_out)
{
    for (uint32_t i = 0; i < n_inner; i++) {
        gate_out[i] = gate_up[2 * i];
        up_out[i] = gate_up[2 * i + 1];
    }
}

struct gated moe_gated(const struct moe_config *config, float *gate, const float *up,
                       uint32_t n_rows, uint32_t n_inner)
{
    return (struct gated){
        .gate = gate,
        .up = up,
        .gate_stride = n_inner,
        .up_stride = n_inner,
        .y = gate,
        .y_stride = n_inner,
        .n_tokens = n_rows,
        .n = n_inner,
        .activation = config->activation,
        .alpha = config->alpha,
        .beta = config->beta,
        .limit = config->limit,
    };
}

float moe_sigmoid(float x)
{
    return (float)(1 / (1 + exp(-(double)x)));
}
