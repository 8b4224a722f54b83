/*
 * compare - how far a result may be from the oracle's, and whether two results are the same bits.
 */
#pragma once

#include "tests/kernels/cases/run.h"

/* The type that rounds most decides; rows of the report. */
enum case_class {
    CLASS_F32,
    CLASS_BF16,
    CLASS_F16,
    CLASS_INT8_CACHE,
    CLASS_E4M3_CACHE,
    CLASS_E4M3_OUTPUT,
    CLASS_FP8_MATH,
    CLASS_INT8_MATH,
    CLASS_INT8_PV_FP8_MATH,
    CLASS_BF16_MATH,
    CLASS_FP16_MATH,
    N_CLASSES,
};

const char *case_class_name(enum case_class class);
enum case_class case_class_of(const struct attention_case *test_case);

/* Relative to the largest and to the root mean square of the oracle's outputs, and for lse to the
 * larger of 1 and its value. */
struct case_error {
    double output, rms, lse;
};

/* F32 1e-5, F16 1e-3, BF16 6e-3. What is rounded to 8 bits adds what one value costs that falls on
 * the other side of its rounding, and so do MATH_BF16 and MATH_FP16; what the oracle does not round adds its
 * noise: MATH_INT8, and MATH_FP16's sums where adds_fp16. */
struct case_error case_bound(const struct case_data *data, const struct case_result *expected,
                             bool adds_fp16);
/* Infinite where one is NaN or a row is empty and the other is not. */
struct case_error case_error(const struct case_data *data, const struct case_result *got,
                             const struct case_result *expected);

/* What the math of a prompt's rows costs: exact is the same attention with MATH_COMPUTE. */
struct case_cost {
    double largest; /* difference, relative to the largest magnitude */
    double mean;    /* difference, relative to the mean magnitude */
};
struct case_cost case_cost_of_math(const struct case_data *data, const struct case_result *got,
                                   const struct case_result *exact);

/* Outputs and lse of sequence s. */
bool case_same_bits(const struct case_data *data, uint32_t s, const struct case_result *a,
                    const struct case_result *b);
bool case_same_caches(const struct case_result *a, const struct case_result *b);
