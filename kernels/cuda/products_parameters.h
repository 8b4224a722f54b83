/*
 * products_parameters - the arguments of the kernels for products: products.cuh and products_mma.cuh.
 *
 * Several products of one call are one launch: z of the grid is the product. Strides are in elements.
 */
#pragma once

#include "kernels/cuda/parameters.h"
#include "kernels/dtype.h"

#define PRODUCTS_MAX 8u /* GEMMS_MAX */

/* The tiles of products_mma.cuh: outputs x tokens, stages of the ring, and elements of the inner dimension in a stage. */
#define PRODUCT_WIDE_OUT    128u
#define PRODUCT_WIDE_TOKENS 128u
#define PRODUCT_WIDE_K      32u
#define PRODUCT_WIDE_STAGES 4u
#define PRODUCT_MID_OUT     64u
#define PRODUCT_MID_TOKENS  64u
#define PRODUCT_MID_K       32u
#define PRODUCT_MID_STAGES  4u
#define PRODUCT_SLIM_OUT    64u
#define PRODUCT_SLIM_TOKENS 16u
#define PRODUCT_SLIM_K      128u
#define PRODUCT_SLIM_STAGES 4u
#define PRODUCT_THIN_OUT    32u
#define PRODUCT_THIN_TOKENS 16u
#define PRODUCT_THIN_K      128u
#define PRODUCT_THIN_STAGES 6u
/* The tiles of products_fours.cuh, by their tokens: outputs, and stages of the ring with PRODUCT_FOURS_K elements. */
#define PRODUCT_FOURS_K          64u
#define PRODUCT_FOURS_256_OUT    128u
#define PRODUCT_FOURS_256_STAGES 4u
#define PRODUCT_FOURS_128_OUT    128u
#define PRODUCT_FOURS_128_STAGES 6u
#define PRODUCT_FOURS_64_OUT     64u
#define PRODUCT_FOURS_64_STAGES  6u
/* The tile of the plain kernel: each of 8 warps computes an output of 4 tokens. */
#define PRODUCT_PLAIN_OUT    8u
#define PRODUCT_PLAIN_TOKENS 4u

PARAMETERS_BEGIN

/* kernel_set.h, struct gemm */
struct product {
    const void *x;        /* [n_tokens][n_in] */
    const void *w;        /* [n_out][n_in] */
    const void *w_scales; /* NULL: none */
    const void *bias;     /* [n_out], NULL: none */
    void *y;              /* [n_tokens][n_out] */
    uint64_t x_stride, y_stride;
    uint32_t n_tokens, n_in, n_out;
    uint32_t w_scale_rows, w_scale_columns;
    uint32_t x_dtype, w_dtype, bias_dtype, y_dtype;
    uint32_t accumulate;
};

struct products_parameters {
    struct product products[PRODUCTS_MAX]; /* [z of the grid] */
};

PARAMETERS_END
