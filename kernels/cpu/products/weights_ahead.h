/*
 * weights_ahead - a block of weights that comes next. It is prefetched into the L2 cache while this one is multiplied, some
 * lines for each tile.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

enum { LINE_BYTES = 64 };

struct weights_ahead {
    const char *at;
    size_t row_bytes, block_bytes, byte; /* of a row; of its K block; already prefetched of it */
    uint32_t n_rows, n_lines;            /* rows left; lines for each tile */
};

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
