/*
 * harness_kernels - small kernels, each of which does one thing that it may not, or one that is worth seeing done: what
 * harness_test.c runs. Not part of any image.
 */
#pragma once

#include "tests/simt/harness/simt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_data {
    float *values;      /* device, [n]; at the end of its memory */
    uint32_t *counters; /* device, [8], zero */
    uint32_t n;
};

/* name: of a kernel in harness_kernels.cpp. Two warps a CTA, n_ctas of them, 4 KiB of shared memory. */
void harness_run(const char *name, uint32_t n_ctas, const struct harness_data *data,
                 const struct simt_schedule *schedule);

#ifdef __cplusplus
}
#endif
