/*
 * output - finishes a row: adds the sink to the denominator, divides, converts to the output's dtype, writes LSE.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define output_block REST(output_block)
#define output_empty REST(output_empty)

/* Writes the rows of a block; rows that see no key are zero. */
void output_block(const struct attention_call *call, const struct row_block *block,
                  const struct partial *total);
/* Writes the rows from token first on as rows that see no key. */
void output_empty(const struct attention_call *call, uint32_t first);
