/*
 * tensors - a step's rows in memory that ends at a guard page, and what came of them.
 */
#pragma once

#include "tests/kernels/cases/run.h"
#include "tests/kernels/cases/step.h"

struct tensor {
    struct guarded memory;
    size_t bytes_max;
    char *data; /* of this step: its last byte lies before the guard page */
    size_t bytes;
    uint64_t stride; /* elements */
};

#define CASE_NO_ROW UINT32_MAX

struct case_tensors {
    struct tensor q, k, v, output, lse, mask; /* fused: q holds K and V too */
    char *copy;                               /* of the inputs, before a call */
    uint32_t *q_rows, *kv_rows; /* row of the data of each row; CASE_NO_ROW: padding */
    uint32_t n_q_rows, n_kv_rows;
};

void case_tensors_init(const struct case_data *data, struct case_tensors *tensors_out);
void case_tensors_finish(struct case_tensors *tensors);

/* Inputs of a step; io_out lacks nothing. The outputs are poison. */
void case_tensors_fill(const struct case_data *data, const struct case_step *step,
                       struct case_tensors *tensors, struct attention_io *io_out);
/* For the next layer. */
void case_tensors_poison_outputs(struct case_tensors *tensors);
/* Nothing of a step was written. */
void case_tensors_check_untouched(const struct case_tensors *tensors, struct case_result *result);
/* Checks what was written, and moves a layer's rows to the result. */
void case_tensors_collect(const struct case_data *data, uint32_t layer,
                          const struct case_tensors *tensors, struct case_result *result);
