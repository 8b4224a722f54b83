/*
 * conform_cases - what each kernel is given, and what of its results is compared.
 *
 * Thread: one.
 */
#pragma once

#include "tests/gpu/conform/conform.h"

struct conform_case {
    const char *name; /* of the kernel, without "conform_" */
    enum conform_kernel kernel;
    uint32_t ctas, threads, shared_bytes;
    uint32_t n_in, n_out;
    void (*fill)(uint32_t *in, uint32_t n_in);
    /* How far the word at i is off, 1: as far as may be; NULL: any difference is too much. bound: what conform_on_host makes of
     * the magnitudes of in. */
    double (*difference)(uint32_t i, uint32_t device, uint32_t host, uint32_t bound);
    void (*magnitudes)(uint32_t *in, uint32_t n_in); /* with difference */
    bool has_map;
};

/* scale: 1 .. 32, of those whose size is free. */
uint32_t conform_cases(uint32_t scale, const struct conform_case **cases_out);
