#include "kernels/rotary.h"

#include "kernels/attention.h"
#include "kernels/backend/reach.h"

enum status rotary_table_check(const struct rotary_table *table, uint32_t head_dim,
                               struct error *error)
{
    if (!table->cos || !table->sin)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rotary table: %s is NULL",
                         table->cos ? "sin" : "cos");
    if (table->rotary_dim == 0 || table->rotary_dim % 2 != 0 || table->rotary_dim > head_dim)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rotary_dim is %u, must be even, not 0 and at most head_dim %u",
                         table->rotary_dim, head_dim);
    return STATUS_OK;
}

/* x or y. */
struct strided {
    const char *name;
    const void *first;
    uint64_t token_stride, head_stride;
};

/* Checks that heads do not overlap, with tokens or heads as the outer dimension, and that the size fits in 64 bits. */
static enum status check_strides(const struct rotary *rotary, const struct strided *strided,
                                 struct error *error)
{
    const uint64_t d = rotary->head_dim;
    const uint64_t tokens = rotary->n_tokens - 1, heads = rotary->n_heads - 1; /* steps */
    const uint64_t token_stride = strided->token_stride, head_stride = strided->head_stride;
    const uint64_t most = (UINT64_MAX - (uintptr_t)strided->first) / dtype_bytes(rotary->dtype);
    uint64_t of_heads, of_tokens, span;
    if (!reach(head_stride, heads, d, &of_heads) || !reach(token_stride, tokens, d, &of_tokens) ||
        !reach(token_stride, tokens, of_heads, &span) || span > most)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s_token_stride %llu and %s_head_stride %llu: the size of %u tokens of "
                         "%u heads does not fit in 64 bits",
                         strided->name, (unsigned long long)token_stride, strided->name,
                         (unsigned long long)head_stride, rotary->n_tokens, rotary->n_heads);
    bool is_token_outside = (heads == 0 || head_stride >= d) &&
                            (tokens == 0 || token_stride >= of_heads);
    bool is_head_outside = (tokens == 0 || token_stride >= d) &&
                           (heads == 0 || head_stride >= of_tokens);
    if (is_token_outside || is_head_outside)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "%s_token_stride %llu and %s_head_stride %llu: heads of %u elements overlap",
                     strided->name, (unsigned long long)token_stride, strided->name,
                     (unsigned long long)head_stride, rotary->head_dim);
}

static enum status check_positions(const struct rotary *rotary, struct error *error)
{
    uint32_t n_positions = rotary->table.n_positions;
    if (!rotary->positions) {
        uint64_t end = (uint64_t)rotary->start + rotary->n_tokens;
        if (end > n_positions)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "start %u and n_tokens %u: the table has %u positions", rotary->start,
                             rotary->n_tokens, n_positions);
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < rotary->n_tokens; i++)
        if (rotary->positions[i] >= n_positions)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "positions[%u] is %u, the table has %u positions", i,
                             rotary->positions[i], n_positions);
    return STATUS_OK;
}

enum status rotary_check(const struct rotary *rotary, struct error *error)
{
    uint32_t d = rotary->head_dim;
    if ((unsigned)rotary->dtype > DTYPE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT, "dtype is %d, must be F32, BF16 or F16",
                         (int)rotary->dtype);
    if (d == 0 || d % 8 != 0 || d > HEAD_DIM_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "head_dim is %u, must be a multiple of 8 up to %u", d, HEAD_DIM_MAX);
    TRY(rotary_table_check(&rotary->table, d, error));
    if (rotary->n_tokens == 0 || rotary->n_heads == 0)
        return STATUS_OK;
    if (!rotary->x || !rotary->y)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is NULL", rotary->x ? "y" : "x");
    const struct strided x = {"x", rotary->x, rotary->x_token_stride, rotary->x_head_stride};
    const struct strided y = {"y", rotary->y, rotary->y_token_stride, rotary->y_head_stride};
    TRY(check_strides(rotary, &x, error));
    TRY(check_strides(rotary, &y, error));
    if (rotary->x == rotary->y && (rotary->x_token_stride != rotary->y_token_stride ||
                                   rotary->x_head_stride != rotary->y_head_stride))
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "y is x, with y_token_stride %llu and x_token_stride %llu, y_head_stride %llu and "
            "x_head_stride %llu: must be equal",
            (unsigned long long)rotary->y_token_stride, (unsigned long long)rotary->x_token_stride,
            (unsigned long long)rotary->y_head_stride, (unsigned long long)rotary->x_head_stride);
    return check_positions(rotary, error);
}
