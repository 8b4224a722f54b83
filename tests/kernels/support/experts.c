#include "tests/kernels/support/experts.h"

#include "tests/kernels/support/values.h"

#include <assert.h>
#include <stdlib.h>

static void *array(struct experts *experts, size_t bytes)
{
    assert(experts->n_arrays < EXPERTS_ARRAYS_MAX);
    struct guarded *guarded = &experts->arrays[experts->n_arrays++];
    *guarded = guarded_create(bytes);
    return guarded->data;
}

static void set_weights(struct experts *experts, enum experts_weights type, const float *source,
                        uint32_t n_out, uint32_t n_in, struct moe_matrix *matrix)
{
    if (type < EXPERTS_QUANTIZED) {
        void *w = array(experts, (size_t)n_out * n_in * dtype_bytes((enum dtype)type));
        for (size_t i = 0; i < (size_t)n_out * n_in; i++)
            dtype_store((enum dtype)type, w, i, source[i]);
        matrix->w = w;
        matrix->dtype = (enum dtype)type;
        return;
    }
    struct quantized quantized;
    enum status status = quantized_init((enum quantize_format)(type - EXPERTS_QUANTIZED), n_out,
                                        n_in, &quantized, NULL);
    assert(status == STATUS_OK);
    (void)status;
    quantized.w = array(experts, quantized_w_bytes(&quantized));
    quantized.scales = array(experts, quantized_scales_bytes(&quantized));
    quantize(NULL, &quantized, DTYPE_F32, source);
    *matrix = (struct moe_matrix){.w = quantized.w,
                                  .dtype = quantized.dtype,
                                  .scales = quantized.scales,
                                  .scale_rows = quantized.scale_rows,
                                  .scale_columns = quantized.scale_columns};
}

/* Products with it are about as large as what they multiply. */
static struct moe_matrix matrix_create(struct experts *experts, enum experts_weights type,
                                       uint32_t n_out, uint32_t n_in, bool has_bias, uint64_t seed)
{
    struct moe_matrix matrix = {0};
    float *source = calloc((size_t)n_out * n_in, sizeof *source);
    assert(source);
    for (uint32_t o = 0; o < n_out; o++)
        for (uint32_t i = 0; i < n_in; i++)
            source[(size_t)o * n_in + i] = values_at(seed, o, i) * 1.5f / sqrtf((float)n_in);
    set_weights(experts, type, source, n_out, n_in, &matrix);
    free(source);
    if (!has_bias)
        return matrix;
    matrix.bias_dtype = seed % 2 ? DTYPE_BF16 : DTYPE_F32;
    void *bias = array(experts, n_out * dtype_bytes(matrix.bias_dtype));
    for (uint32_t o = 0; o < n_out; o++)
        dtype_store(matrix.bias_dtype, bias, o, values_at(seed, n_out, o) / 4);
    matrix.bias = bias;
    return matrix;
}

static struct moe_expert expert_create(struct experts *experts,
                                       const struct experts_options *options, uint32_t n_inner,
                                       bool is_interleaved, uint64_t seed)
{
    uint32_t n_in = experts->config.n_in;
    struct moe_expert expert = {0};
    expert.gate = matrix_create(experts, options->weights, is_interleaved ? 2 * n_inner : n_inner,
                                n_in, options->has_bias, seed);
    if (!is_interleaved)
        expert.up = matrix_create(experts, options->weights, n_inner, n_in, options->has_bias,
                                  seed + 1);
    expert.down = matrix_create(experts, options->weights, n_in, n_inner, options->has_bias,
                                seed + 2);
    return expert;
}

struct experts *experts_create(const struct moe_config *config,
                               const struct experts_options *options)
{
    const struct moe_routing *routing = &config->routing;
    struct experts *experts = calloc(1, sizeof *experts);
    assert(experts);
    experts->config = *config;
    struct moe_expert *list = array(experts, routing->n_experts * sizeof *list);
    for (uint32_t e = 0; e < routing->n_experts; e++)
        list[e] = expert_create(experts, options, config->n_inner, config->is_interleaved,
                                options->seed + 10 * e);
    experts->weights.experts = list;
    experts->weights.router = matrix_create(experts, options->seed % 2 ? EXPERTS_BF16 : EXPERTS_F32,
                                            routing->n_experts, config->n_in, options->has_bias,
                                            options->seed + 7);
    if (options->has_selection_bias) {
        float *bias = array(experts, routing->n_experts * sizeof *bias);
        for (uint32_t e = 0; e < routing->n_experts; e++)
            bias[e] = values_at(options->seed + 8, 0, e) / 8;
        experts->weights.selection_bias = bias;
    }
    if (options->has_expert_scales) {
        float *scales = array(experts, routing->n_experts * sizeof *scales);
        for (uint32_t e = 0; e < routing->n_experts; e++)
            scales[e] = 1 + values_at(options->seed + 6, 0, e) / 2;
        experts->weights.expert_scales = scales;
    }
    if (config->n_shared_inner > 0) {
        experts->weights.shared = expert_create(experts, options, config->n_shared_inner, false,
                                                options->seed + 5);
        if (options->has_shared_gate)
            experts->weights.shared_gate = matrix_create(experts, EXPERTS_BF16, 1, config->n_in,
                                                         options->has_bias, options->seed + 9);
    }
    return experts;
}

static void pack(struct experts *experts, const struct kernels *kernels, uint32_t n_out,
                 uint32_t n_in, struct moe_matrix *matrix)
{
    struct gemm gemm = {.w = matrix->w,
                        .w_dtype = matrix->dtype,
                        .w_scales = matrix->scales,
                        .w_scale_rows = matrix->scale_rows,
                        .w_scale_columns = matrix->scale_columns,
                        .n_in = n_in,
                        .n_out = n_out};
    if (!matrix->w)
        return;
    void *packed = array(experts, kernels->gemm_packed_bytes(&gemm));
    kernels->gemm_pack(NULL, &gemm, packed);
    matrix->w = packed;
    matrix->scales = NULL;
    matrix->is_packed = true;
}

static void pack_expert(struct experts *experts, const struct kernels *kernels, uint32_t n_inner,
                        bool is_interleaved, struct moe_expert *expert)
{
    uint32_t n_in = experts->config.n_in;
    pack(experts, kernels, is_interleaved ? 2 * n_inner : n_inner, n_in, &expert->gate);
    pack(experts, kernels, n_inner, n_in, &expert->up);
    pack(experts, kernels, n_in, n_inner, &expert->down);
}

void experts_pack(struct experts *experts, const struct kernels *kernels)
{
    const struct moe_config *config = &experts->config;
    struct moe_expert *list = experts->arrays[0].data;
    for (uint32_t e = 0; e < config->routing.n_experts; e++)
        pack_expert(experts, kernels, config->n_inner, config->is_interleaved, &list[e]);
    pack_expert(experts, kernels, config->n_shared_inner, false, &experts->weights.shared);
}

void experts_destroy(struct experts *experts)
{
    for (uint32_t i = 0; i < experts->n_arrays; i++)
        guarded_destroy(&experts->arrays[i]);
    free(experts);
}

/* ---- the formulas ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* How many of the values allowed come before value index: larger, or equal and earlier. */
static uint32_t rank_of(const double *values, const bool *allowed, uint32_t n, uint32_t index)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++)
        if (allowed[i] && (values[i] > values[index] || (values[i] == values[index] && i < index)))
            rank++;
    return rank;
}

/* What the last of the n best is above the best of the others. */
static double margin_of(const double *values, const bool *allowed, uint32_t n_values, uint32_t n)
{
    double last = INFINITY, next = -INFINITY;
    for (uint32_t i = 0; i < n_values; i++) {
        if (!allowed[i])
            continue;
        if (rank_of(values, allowed, n_values, i) < n)
            last = fmin(last, values[i]);
        else
            next = fmax(next, values[i]);
    }
    return last - next;
}

static double allow_groups(const struct moe_routing *routing, const double *choice, bool *allowed)
{
    double values[MOE_EXPERTS_MAX] = {0};
    bool all[MOE_EXPERTS_MAX] = {0};
    assert(routing->n_groups > 0);
    uint32_t size = routing->n_experts / routing->n_groups;
    assert(size > 0);
    for (uint32_t g = 0; g < routing->n_groups; g++) {
        const double *group = choice + g * size;
        all[g] = true;
        values[g] = -INFINITY;
        for (uint32_t i = 0; i < size; i++)
            if (routing->group_score == MOE_GROUP_BEST)
                values[g] = fmax(values[g], group[i]);
            else
                for (uint32_t j = 0; j < i; j++)
                    values[g] = fmax(values[g], group[i] + group[j]);
    }
    for (uint32_t e = 0; e < routing->n_experts; e++)
        allowed[e] = rank_of(values, all, routing->n_groups, e / size) < routing->top_groups;
    return margin_of(values, all, routing->n_groups, routing->top_groups);
}

double experts_route(const struct moe_routing *routing, const float *selection_bias,
                     const double *logits, uint32_t *ids_out, double *weights_out)
{
    const uint32_t n = routing->n_experts;
    double choice[MOE_EXPERTS_MAX] = {0}, all = 0, chosen = 0, margin = INFINITY;
    bool allowed[MOE_EXPERTS_MAX] = {0};
    assert(n > 0 && routing->top_k > 0);
    for (uint32_t e = 0; e < n; e++) {
        choice[e] = routing->score == MOE_SIGMOID ? sigmoid(logits[e]) : logits[e];
        choice[e] += selection_bias ? (double)selection_bias[e] : 0;
        all += exp(logits[e]);
        allowed[e] = true;
    }
    if (routing->n_groups > 0)
        margin = allow_groups(routing, choice, allowed);
    margin = fmin(margin, margin_of(choice, allowed, n, routing->top_k));
    for (uint32_t rank = 0; rank < routing->top_k; rank++)
        weights_out[rank] = 0;
    for (uint32_t e = 0; e < n; e++) {
        uint32_t rank = rank_of(choice, allowed, n, e);
        if (allowed[e] && rank < routing->top_k) {
            ids_out[rank] = e;
            weights_out[rank] = routing->score == MOE_SIGMOID ? sigmoid(logits[e]) : exp(logits[e]);
            chosen += weights_out[rank];
        }
    }
    double divisor = routing->score == MOE_SIGMOID ? 1 : all;
    if (routing->renormalise || routing->score == MOE_SOFTMAX_TOP)
        divisor = chosen;
    assert(divisor > 0);
    for (uint32_t rank = 0; rank < routing->top_k; rank++)
        weights_out[rank] *= (double)routing->scale / divisor;
    return margin;
}

static double bias_at(const struct moe_matrix *matrix, uint32_t row)
{
    return matrix->bias ? (double)dtype_load(matrix->bias_dtype, matrix->bias, row) : 0;
}

/* Row of a matrix with n_in columns, of n_out rows, times x, plus its bias. */
static double row_times(const struct moe_matrix *matrix, uint32_t n_out, uint32_t n_in,
                        uint32_t row, const double *x)
{
    float w[1024];
    struct gemm gemm = {.w = matrix->w,
                        .w_dtype = matrix->dtype,
                        .w_scales = matrix->scales,
                        .w_scale_rows = matrix->scale_rows,
                        .w_scale_columns = matrix->scale_columns,
                        .n_in = n_in,
                        .n_out = n_out};
    assert(n_in <= 1024);
    dequantize_row(&gemm, row, w);
    double sum = bias_at(matrix, row);
    for (uint32_t i = 0; i < n_in; i++)
        sum += x[i] * (double)w[i];
    return sum;
}

static double activate(const struct moe_config *config, double x)
{
    double alpha = config->alpha > 0 ? (double)config->alpha : 1;
    switch (config->activation) {
    case ACTIVATION_SILU:
        return x * sigmoid(alpha * x);
    case ACTIVATION_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
    case ACTIVATION_RELU:
        return fmax(x, 0);
    case ACTIVATION_SIGMOID: /* no expert has it */
        break;
    }
    assert(false);
    return NAN;
}

static void add_expert(const struct moe_config *config, const struct moe_expert *expert,
                       uint32_t n_inner, bool is_interleaved, const double *x, double weight,
                       double *y)
{
    double inner[1024] = {0};
    double limit = config->limit > 0 ? (double)config->limit : INFINITY;
    const uint32_t n_gate = is_interleaved ? 2 * n_inner : n_inner;
    const struct moe_matrix *up_matrix = is_interleaved ? &expert->gate : &expert->up;
    assert(n_inner <= 1024);
    for (uint32_t j = 0; j < n_inner; j++) {
        double gate = row_times(&expert->gate, n_gate, config->n_in, is_interleaved ? 2 * j : j, x);
        double up = row_times(up_matrix, n_gate, config->n_in, is_interleaved ? 2 * j + 1 : j, x);
        inner[j] = activate(config, fmin(gate, limit)) *
                   (fmax(fmin(up, limit), -limit) + (double)config->beta);
    }
    for (uint32_t i = 0; i < config->n_in; i++)
        y[i] += weight * row_times(&expert->down, config->n_in, n_inner, i, inner);
}

double experts_expected(const struct experts *experts, const float *x, const float *router_x,
                        double *y_out)
{
    const struct moe_config *config = &experts->config;
    const struct moe_weights *weights = &experts->weights;
    const uint32_t n_experts = config->routing.n_experts;
    double wide[1024] = {0}, routed[1024] = {0}, logits[MOE_EXPERTS_MAX], shares[MOE_EXPERTS_MAX];
    uint32_t ids[MOE_EXPERTS_MAX] = {0};
    assert(config->n_in <= 1024);
    for (uint32_t i = 0; i < config->n_in; i++) {
        wide[i] = (double)x[i];
        routed[i] = (double)(router_x ? router_x : x)[i];
        y_out[i] = 0;
    }
    for (uint32_t e = 0; e < n_experts; e++)
        logits[e] = row_times(&weights->router, n_experts, config->n_in, e, routed);
    double margin = experts_route(&config->routing, weights->selection_bias, logits, ids, shares);
    for (uint32_t rank = 0; rank < config->routing.top_k; rank++) {
        const float *scales = weights->expert_scales;
        add_expert(config, &weights->experts[ids[rank]], config->n_inner, config->is_interleaved,
                   wide, shares[rank] * (scales ? (double)scales[ids[rank]] : 1), y_out);
    }
    if (config->n_shared_inner == 0)
        return margin;
    double share = 1;
    if (weights->shared_gate.w)
        share = sigmoid(row_times(&weights->shared_gate, 1, config->n_in, 0, wide));
    add_expert(config, &weights->shared, config->n_shared_inner, false, wide, share, y_out);
    return margin;
}
