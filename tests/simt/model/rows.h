/* rows - what a row of logits says, and how far one in BF16 may be from float32's. */
#pragma once

#include <stdint.h>

/* How far a logit may be from float32's, in parts of the largest of float32's row, of either sign: a logit is a sum of many terms
 * of either sign, and what rounding moves it by goes with the terms, not with what is left of them. Of the demo model, whose
 * activations and cache keep 8 bits of mantissa (2e-3 each rounding, a few dozen of them behind one another); and of models of
 * 32 elements a token, whose cache in BF16 alone makes half of it. margin_test prints what is measured. */
#define ROWS_TOLERANCE      2e-2
#define ROWS_TINY_TOLERANCE 3e-2

/* Each of n logits. The id of the largest, the lowest of equals. */
uint32_t rows_best(const float *logits, uint32_t n);
/* How far the best is above the second. */
double rows_margin(const float *logits, uint32_t n);
/* The largest of either sign. */
double rows_largest(const float *logits, uint32_t n);
