/*
 * moe_parts - functions that the host's back ends of moe share.
 */
#pragma once

#include "kernels/moe.h"

struct moe {
    struct moe_config config;
    const struct kernels *kernels;
    uint32_t n_tokens_max;
    size_t workspace_bytes;
    char *workspace; /* aligned to 64 bytes; nothing in it outlives a forward */
};

/* moe_route, then the scales of the chosen experts. */
void moe_choose(const struct moe *moe, const struct moe_weights *weights, const float *logits,
                uint32_t *ids_out, float *weights_out);

/* Divides a workspace into pieces. With base NULL it only counts the bytes. */
struct moe_space {
    char *base;
    size_t used;
};

/* n elements of 4 bytes, aligned to 64 bytes. */
void *moe_space_take(struct moe_space *space, size_t n);

/* The product with one matrix of n_out rows and n_in columns; rows of x and y have no gaps. The caller fills in x, y
 * and n_tokens. */
struct gemm moe_product(const struct moe_matrix *matrix, uint32_t n_out, uint32_t n_in);

/* Separates a row of interleaved results: gate 0, up 0, gate 1, ... */
void moe_split(const float *gate_up, uint32_t n_inner, float *gate_out, float *up_out);

/* gate = the configuration's activation of gate and up: [n_rows][n_inner] each. */
struct gated moe_gated(const struct moe_config *config, float *gate, const float *up,
                       uint32_t n_rows, uint32_t n_inner);

/* The weight of the shared expert, from the logit of its gate. */
float moe_sigmoid(float x);
