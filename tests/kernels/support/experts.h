/*
 * experts - a mixture-of-experts layer with random weights of any type, and what it computes, by the
 * formulas of kernels/moe.h in float64.
 */
#pragma once

#include "kernels/moe.h"
#include "kernels/quantize.h"
#include "tests/kernels/support/guarded.h"

/* What weights are held as. */
enum experts_weights {
    EXPERTS_F32,
    EXPERTS_BF16,
    EXPERTS_F16,
    EXPERTS_QUANTIZED, /* + enum quantize_format */
};
enum { EXPERTS_WEIGHTS_MAX = EXPERTS_QUANTIZED + QUANTIZE_MXFP4 + 1, EXPERTS_ARRAYS_MAX = 1024 };

struct experts_options {
    enum experts_weights weights;
    bool has_bias, has_selection_bias, has_shared_gate, has_expert_scales;
    uint64_t seed;
};

struct experts {
    struct moe_config config;
    struct moe_weights weights;
    struct guarded arrays[EXPERTS_ARRAYS_MAX];
    uint32_t n_arrays;
};

/* Widths must suit options.weights: multiples of 32 for groups of 32. */
struct experts *experts_create(const struct moe_config *config,
                               const struct experts_options *options);
/* INT8 only: every expert's weights are packed for kernels, which have a gemm_pack, from now on. */
void experts_pack(struct experts *experts, const struct kernels *kernels);
void experts_destroy(struct experts *experts);

/* The choice by counting who is better. Returns the smallest difference that decides it. */
double experts_route(const struct moe_routing *routing, const float *selection_bias,
                     const double *logits, uint32_t *ids_out, double *weights_out);

/* The row of one token, [n_in]. router_x: what the router reads, NULL: x. Returns the smallest difference that decides who is
 * chosen. */
double experts_expected(const struct experts *experts, const float *x, const float *router_x,
                        double *y_out);
