#include "kernels/blocks.h"
#include "kernels/kernel_set.h"

#include <assert.h>

/* Whether gemms take one scale for rows x columns weights of w_dtype. */
static bool is_scale_block(const struct gemm *gemm)
{
    uint32_t columns = gemm->w_scale_columns;
    switch (gemm->w_dtype) {
    case DTYPE_INT8:
        return gemm->w_scale_rows == 1 &&
               (columns == gemm->n_in || (columns == 32 && gemm->n_in % 32 == 0));
    case DTYPE_E4M3:
        return gemm->w_scale_rows > 0 &&
               (columns >= gemm->n_in || (columns > 0 && columns % 32 == 0));
    case DTYPE_E2M1:
        return gemm->w_scale_rows == 1 && columns == 32;
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
    default:
        break;
    }
    assert(false);
    return false;
}

/* Blocks have their scales in them. */
static enum status check_blocks(const struct gemm *gemm, struct error *error)
{
    const struct block_shape shape = dtype_block_shape(gemm->w_dtype);
    if (gemm->w_scales || gemm->w_is_packed)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is set: %s weights have none",
                         gemm->w_scales ? "w_scales" : "w_is_packed", dtype_name(gemm->w_dtype));
    if (gemm->n_in % shape.elements != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_in is %u: %s weights need a multiple of %u", gemm->n_in,
                         dtype_name(gemm->w_dtype), shape.elements);
    return STATUS_OK;
}

static enum status check_scales(const struct gemm *gemm, struct error *error)
{
    const char *dtype = dtype_name(gemm->w_dtype);
    if (dtype_is_blocks(gemm->w_dtype))
        return check_blocks(gemm, error);
    if (gemm->w_is_packed && gemm->w_dtype != DTYPE_INT8)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "w_is_packed is set: only INT8 weights are packed, not %s", dtype);
    if (gemm->w_dtype < DTYPE_INT8 && gemm->w_scales)
        return error_set(error, STATUS_INVALID_ARGUMENT, "w_scales is set: %s weights have none",
                         dtype);
    if (gemm->w_dtype < DTYPE_INT8)
        return STATUS_OK;
    if (!gemm->w_scales && !gemm->w_is_packed)
        return error_set(error, STATUS_INVALID_ARGUMENT, "w_scales is NULL: %s weights need it",
                         dtype);
    if (gemm->w_dtype == DTYPE_E2M1 && gemm->n_in % 32 != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_in is %u: E2M1 weights need a multiple of 32", gemm->n_in);
    if (!is_scale_block(gemm))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "w_scale_rows is %u and w_scale_columns %u: %s weights with n_in %u have "
                         "no scales of that shape",
                         gemm->w_scale_rows, gemm->w_scale_columns, dtype, gemm->n_in);
    return STATUS_OK;
}

enum status gemm_check_operands(const struct gemm *gemm, struct error *error)
{
    if (gemm->n_in == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_in is 0, must be at least 1");
    if (gemm->w_dtype > DTYPE_LAST)
        return error_set(error, STATUS_INVALID_ARGUMENT, "w_dtype is %d: there is no such type",
                         (int)gemm->w_dtype);
    if (gemm->x_dtype > DTYPE_F16 || gemm->y_dtype > DTYPE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "x_dtype is %d and y_dtype %d, must be F32, BF16 or F16",
                         (int)gemm->x_dtype, (int)gemm->y_dtype);
    if (!gemm->w && gemm->n_out > 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "w is NULL");
    if (gemm->x_stride < gemm->n_in || gemm->y_stride < gemm->n_out)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "x_stride is %llu and y_stride %llu: rows of %u and %u overlap",
                         (unsigned long long)gemm->x_stride, (unsigned long long)gemm->y_stride,
                         gemm->n_in, gemm->n_out);
    if (gemm->bias && gemm->bias_dtype > DTYPE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "bias_dtype is %d, must be F32, BF16 or F16", (int)gemm->bias_dtype);
    return check_scales(gemm, error);
}

enum status gemm_check(const struct gemm *gemm, struct error *error)
{
    enum status status = gemm_check_operands(gemm, error);
    if (status != STATUS_OK)
        return status;
    if (gemm->x_dtype != DTYPE_F32 || gemm->y_dtype != DTYPE_F32)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "x_dtype is %s and y_dtype %s, must be F32 on a host",
                         dtype_name(gemm->x_dtype), dtype_name(gemm->y_dtype));
    return STATUS_OK;
}
