/*
 * weights_ahead - a block of weights that comes next. It is prefetched into the L2 cache while this one is multiplied, some
 * lines for each tile.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/vec.h"

enum { LINE_BYTES = 64 };

struct weights_ahead {
    const char *at;
    size_t row_bytes, block_bytes, byte; /* of a row; of its K block; already prefetched of it */
    uint32_t n_rows, n_lines;            /* rows left; lines for each tile */
};

/* k_len elements from k on, of n_rows rows from row on, or fewer of both at an end; prefetched by n_calls of ask_ahead. */
INLINE struct weights_ahead weights_ahead_of(const struct gemm *gemm, uint32_t row, uint32_t n_rows,
                                             uint32_t k, uint32_t k_len, uint32_t n_calls)
{
    const uint32_t left = gemm->n_in - k, rows_left = gemm->n_out - row;
    struct weights_ahead ahead = {.row_bytes = dtype_array_bytes(gemm->w_dtype, gemm->n_in)};
    ahead.block_bytes = dtype_array_bytes(gemm->w_dtype, left < k_len ? left : k_len);
    ahead.at = (const char *)gemm->w + row * ahead.row_bytes + dtype_array_bytes(gemm->w_dtype, k);
    ahead.n_rows = rows_left < n_rows ? rows_left : n_rows;
    ahead.n_lines = (uint32_t)(ahead.n_rows * (ahead.block_bytes / LINE_BYTES + 1) / n_calls + 1);
    return ahead;
}

INLINE void ask_ahead(struct weights_ahead *ahead)
{
    for (uint32_t i = 0; i < ahead->n_lines && ahead->n_rows > 0; i++) {
        vec_prefetch(ahead->at + ahead->byte);
        ahead->byte += LINE_BYTES;
        if (ahead->byte >= ahead->block_bytes) {
            ahead->byte = 0;
            ahead->at += ahead->row_bytes;
            ahead->n_rows--;
        }
    }
}
