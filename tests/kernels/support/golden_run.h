/*
 * golden_run - one layer over the sequences of a golden, cut into steps in every way it allows.
 */
#pragma once

#include "kernels/kernels.h"

/* Arrays that the file has (bias, norms, sinks, the table or buckets whose sizes config.bias gives)
 * are filled in. */
struct golden {
    const char *name;
    struct attention_config config;
    struct rope_config rope; /* theta 0: none; head_dim and positions_max are filled in */
    uint64_t mask_sequence_stride, mask_query_stride;
};

/* The largest error of an output or a log-sum-exp, relative to the largest expected value of its
 * kind, over all cuts. */
double golden_run(const struct golden *golden, const struct attention_backend *backend,
                  uint32_t *n_cuts_out);
/* The same for a search: the prompt, then steps of all beams, whose tokens stay where they were
 * written. */
double golden_run_beams(const struct golden *golden, const struct attention_backend *backend);
