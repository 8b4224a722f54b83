/*
 * output - a row's way out: the sink's part of the denominator, the division, the output's dtype, LSE.
 */
#pragma once

#include "kernels/cpu/attention/attend.h"

#define output_block REST(output_block)
#define output_empty REST(output_empty)

/* Writes the block's rows; those without a key are zero. */
void output_block(const struct attention_call *call, const struct row_block *block,
                  const struct partial *total);
/* Writes every row of the step as one that sees nothing. */
void output_empty(const struct attention_call *call);
