/*
 * softmax - turns the scores of a tile into weights, with the running maximum and sums of each row.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define softmax_tile ISA(softmax_tile)

struct softmax_rows {
    uint32_t n_rows; /* at most ROWS_MAX */
    bool rounds;     /* weights are rounded to E4M3 */
    bool
        is_16bit; /* they will be rounded to BF16 or FP16. Both: the maximum is a quantized_ceiling */
    const struct seen *seen;
    float *scores; /* [n_rows][TILE_KEYS], then the weights */
};

/* Keys that a row does not see get the weight 0. keep_out: the factor for the earlier sums and outputs of each row. */
void softmax_tile(const struct softmax_rows *rows, float *keep_out, struct partial *partial);
