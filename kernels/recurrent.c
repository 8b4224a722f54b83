#include "kernels/recurrent.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

/* ---- what all of them have ---- */

struct given_array {
    const char *name;
    const void *array;
};

static enum status check_given(const struct given_array *arrays, size_t n, struct error *error)
{
    for (size_t i = 0; i < n; i++)
        if (!arrays[i].array)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is NULL", arrays[i].name);
    return STATUS_OK;
}

struct given_stride {
    const char *name;
    uint64_t stride, n; /* n: the elements of a row */
};

static enum status check_strides(const struct given_stride *strides, size_t n, struct error *error)
{
    for (size_t i = 0; i < n; i++)
        if (strides[i].stride < strides[i].n)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %llu: a row has %llu elements",
                             strides[i].name, (unsigned long long)strides[i].stride,
                             (unsigned long long)strides[i].n);
    return STATUS_OK;
}

static enum status check_dtype(const char *name, enum dtype dtype, struct error *error)
{
    if ((unsigned)dtype > DTYPE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %d, must be F32, BF16 or F16", name,
                         (int)dtype);
    return STATUS_OK;
}

static enum status check_count(const char *name, uint32_t count, struct error *error)
{
    if (count == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is 0", name);
    return STATUS_OK;
}

static enum status check_not_negative(const char *name, float value, struct error *error)
{
    if (!isfinite(value) || value < 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s is %g, must be a number that is not negative", name, (double)value);
    return STATUS_OK;
}

struct batch {
    uint32_t n_sequences, n_of_each; /* states */
    const uint32_t *lens;
    float *const *states;
};

/* n_rows_out: those of all sequences. */
static enum status check_batch(const struct batch *batch, uint64_t *n_rows_out, struct error *error)
{
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < batch->n_sequences; s++) {
        if (!batch->lens || !batch->states)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is NULL",
                             batch->lens ? "states" : "lens");
        n_rows += batch->lens[s];
        for (uint32_t i = 0; i < batch->n_of_each && batch->lens[s] > 0; i++) {
            const uint64_t at = (uint64_t)s * batch->n_of_each + i;
            if (!batch->states[at])
                return error_set(error, STATUS_INVALID_ARGUMENT,
                                 "states[%" PRIu64 "] is NULL, lens[%u] is %u", at, s,
                                 batch->lens[s]);
        }
    }
    *n_rows_out = n_rows;
    return STATUS_OK;
}

#define N_OF(array) (sizeof array / sizeof array[0])

/* ---- one function for each ---- */

enum status causal_conv_check(const struct causal_conv *conv, struct error *error)
{
    const struct given_array arrays[] = {{"x", conv->x}, {"w", conv->w}, {"y", conv->y}};
    const struct given_stride strides[] = {{"x_stride", conv->x_stride, conv->n_channels},
                                           {"y_stride", conv->y_stride, conv->n_channels}};
    const struct batch batch = {conv->n_sequences, 1, conv->lens, conv->states};
    uint64_t n_rows = 0;
    TRY(check_count("n_channels", conv->n_channels, error));
    if (conv->width < 2 || conv->width > CONV_WIDTH_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "width is %u, must be from 2 to %u",
                         conv->width, CONV_WIDTH_MAX);
    TRY(check_dtype("w_dtype", conv->w_dtype, error));
    if (conv->bias)
        TRY(check_dtype("bias_dtype", conv->bias_dtype, error));
    TRY(check_strides(strides, N_OF(strides), error));
    TRY(check_batch(&batch, &n_rows, error));
    if (n_rows == 0)
        return STATUS_OK;
    TRY(check_given(arrays, N_OF(arrays), error));
    if (conv->x == conv->y)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "y is x: later rows still read what would be overwritten");
    return STATUS_OK;
}

enum status delta_gate_check(const struct delta_gate *gate, struct error *error)
{
    const struct given_array arrays[] = {{"a", gate->a},         {"b", gate->b},
                                         {"a_log", gate->a_log}, {"dt_bias", gate->dt_bias},
                                         {"decay", gate->decay}, {"beta", gate->beta}};
    const struct given_stride strides[] = {{"a_stride", gate->a_stride, gate->n_heads},
                                           {"b_stride", gate->b_stride, gate->n_heads},
                                           {"decay_stride", gate->decay_stride, gate->n_heads},
                                           {"beta_stride", gate->beta_stride, gate->n_heads}};
    TRY(check_count("n_heads", gate->n_heads, error));
    TRY(check_dtype("a_log_dtype", gate->a_log_dtype, error));
    TRY(check_dtype("dt_bias_dtype", gate->dt_bias_dtype, error));
    TRY(check_strides(strides, N_OF(strides), error));
    return gate->n_rows == 0 ? STATUS_OK : check_given(arrays, N_OF(arrays), error);
}

static enum status check_delta_sizes(const struct delta_rule *rule, struct error *error)
{
    const struct {
        const char *name;
        uint32_t dim;
    } dims[] = {{"key_dim", rule->key_dim}, {"value_dim", rule->value_dim}};
    for (size_t i = 0; i < N_OF(dims); i++)
        if (dims[i].dim == 0 || dims[i].dim % 8 != 0 || dims[i].dim > DELTA_DIM_MAX)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s is %u, must be a multiple of 8 up to %u", dims[i].name,
                             dims[i].dim, DELTA_DIM_MAX);
    TRY(check_count("n_heads", rule->n_heads, error));
    if (rule->n_key_heads == 0 || rule->n_heads % rule->n_key_heads != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_key_heads is %u: n_heads %u is no multiple of it", rule->n_key_heads,
                         rule->n_heads);
    TRY(check_not_negative("scale", rule->scale, error));
    return check_not_negative("norm_eps", rule->norm_eps, error);
}

enum status delta_rule_check(const struct delta_rule *rule, struct error *error)
{
    const uint64_t n_keys = (uint64_t)rule->n_key_heads * rule->key_dim;
    const uint64_t n_values = (uint64_t)rule->n_heads * rule->value_dim;
    const struct given_array arrays[] = {{"q", rule->q},       {"k", rule->k},
                                         {"v", rule->v},       {"decay", rule->decay},
                                         {"beta", rule->beta}, {"o", rule->o}};
    const struct given_stride strides[] = {{"q_stride", rule->q_stride, n_keys},
                                           {"k_stride", rule->k_stride, n_keys},
                                           {"v_stride", rule->v_stride, n_values},
                                           {"decay_stride", rule->decay_stride, rule->n_heads},
                                           {"beta_stride", rule->beta_stride, rule->n_heads},
                                           {"o_stride", rule->o_stride, n_values}};
    const struct batch batch = {rule->n_sequences, rule->n_heads, rule->lens, rule->states};
    uint64_t n_rows = 0;
    TRY(check_delta_sizes(rule, error));
    TRY(check_strides(strides, N_OF(strides), error));
    TRY(check_batch(&batch, &n_rows, error));
    return n_rows == 0 ? STATUS_OK : check_given(arrays, N_OF(arrays), error);
}

enum status gated_norm_check(const struct gated_norm *norm, struct error *error)
{
    const uint64_t n = (uint64_t)norm->n_heads * norm->n;
    const struct given_array arrays[] = {
        {"x", norm->x}, {"z", norm->z}, {"w", norm->w}, {"y", norm->y}};
    const struct given_stride strides[] = {{"x_stride", norm->x_stride, n},
                                           {"z_stride", norm->z_stride, n},
                                           {"y_stride", norm->y_stride, n}};
    TRY(check_count("n_heads", norm->n_heads, error));
    TRY(check_count("n", norm->n, error));
    TRY(check_dtype("w_dtype", norm->w_dtype, error));
    TRY(check_not_negative("eps", norm->eps, error));
    TRY(check_strides(strides, N_OF(strides), error));
    return norm->n_rows == 0 ? STATUS_OK : check_given(arrays, N_OF(arrays), error);
}
