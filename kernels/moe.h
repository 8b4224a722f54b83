/*
 * moe - mixture of experts: a router gives each token to top_k of n_experts feed-forward networks.
 *
 *     logits  = router x + its bias                                     [n_experts]; router_x in place of x if there is one
 *     ids, weights = moe_route(logits)                                  [top_k], the best first; then times the experts' scales
 *     expert(x) = down(gated(gate(x), up(x)))                           activation, limit, ...
 *     y = sum over ranks of weights[rank] expert[ids[rank]](x)          in the order of the ranks
 *         + shared expert(x), times sigmoid(shared gate x) if there is one
 *         + y, with accumulate
 *
 *     model              score         renormalise  scale   groups        besides
 *     Mixtral            SOFTMAX_ALL   yes          1       -
 *     Qwen2-MoE, Qwen3   SOFTMAX_ALL   a key        1       -             Qwen2: a gated shared expert
 *     gpt-oss            SOFTMAX_TOP   -            1       -             interleaved, biases, limit 7
 *     DeepSeek-V2        SOFTMAX_ALL   no           16      GROUP_BEST    shared expert
 *     DeepSeek-V3        SIGMOID       yes          2.5     GROUP_TWO     selection bias, shared expert
 *     Gemma 4            SOFTMAX_ALL   yes          1       -             the router reads other rows; scales of the experts
 *
 * (Mixtral: arXiv 2401.04088; DeepSeek-V2: 2405.04434, section 2.2; DeepSeek-V3: 2412.19437, section
 * 2.1.2; gpt-oss: 2508.10925.) The row of a token depends on that token alone: its bits do not depend on other
 * tokens, threads or the order of calls.
 *
 * Thread: one call of a struct moe at a time. It owns a workspace that is allocated at creation; nothing is
 * allocated afterwards. Layers with the same configuration share one.
 */
#pragma once

#include "kernels/kernel_set.h"

#define MOE_EXPERTS_MAX 1024u
#define MOE_WIDTH_MAX   (1u << 20) /* of n_in, n_inner, n_shared_inner and n_tokens_max */

/* What a logit becomes: a weight, and for SIGMOID also the order of choice. */
enum moe_score {
    MOE_SOFTMAX_ALL, /* softmax over all experts */
    MOE_SOFTMAX_TOP, /* softmax over the chosen ones */
    MOE_SIGMOID,     /* 1 / (1 + exp(-logit)); chosen by this plus the selection bias */
};

/* Only experts of the top_groups best groups are chosen. The score of a group: */
enum moe_group_score {
    MOE_GROUP_BEST, /* its best expert */
    MOE_GROUP_TWO,  /* the sum of its two best: SIGMOID only */
};

/* Of equal experts, or equal groups, the one with the lower index comes first. */
struct moe_routing {
    uint32_t n_experts, top_k;
    enum moe_score score;
    bool renormalise;              /* weights are divided by their sum (SIGMOID: + 1e-20) */
    float scale;                   /* then multiplied by this: routed_scaling_factor; 1: none */
    uint32_t n_groups, top_groups; /* n_groups 0: no groups; else consecutive, of equal size */
    enum moe_group_score group_score;
};

struct moe_config {
    uint32_t n_in;           /* floats of a token, in and out */
    uint32_t n_inner;        /* rows of gate and of up, of one expert */
    uint32_t n_shared_inner; /* the same for the shared expert; 0: there is none */
    bool is_interleaved;     /* experts (not the shared one) have gate and up in one matrix of
                                2 n_inner rows: gate 0, up 0, gate 1, ... as gpt-oss */
    struct moe_routing routing;
    enum activation activation; /* this field and the next three: as in struct gated */
    float alpha, beta, limit;
    bool x_is_int8; /* as in struct gemm */
};

/* The weights, scales and bias of struct gemm. */
struct moe_matrix {
    const void *w;
    enum dtype dtype;
    const void *scales;
    uint32_t scale_rows, scale_columns;
    bool is_packed;   /* INT8, by gemm_pack of the same kernels */
    const void *bias; /* NULL: none */
    enum dtype bias_dtype;
};

struct moe_expert {
    struct moe_matrix gate; /* [n_inner][n_in]; is_interleaved: [2 n_inner][n_in] */
    struct moe_matrix up;   /* [n_inner][n_in]; is_interleaved: w is NULL */
    struct moe_matrix down; /* [n_in][n_inner] */
};

/* One layer; borrowed while forward runs, used in place. */
struct moe_weights {
    struct moe_matrix router;         /* [n_experts][n_in] */
    const float *selection_bias;      /* [n_experts], SIGMOID only; NULL: none */
    const float *expert_scales;       /* [n_experts] times the weights of the choice; NULL: 1 */
    const struct moe_expert *experts; /* [n_experts] */
    struct moe_expert shared;         /* with n_shared_inner rows */
    struct moe_matrix shared_gate;    /* [1][n_in]; w NULL: the shared expert counts in full */
};

/* y does not overlap x. n_tokens is at most n_tokens_max and may be 0. */
struct moe_io {
    const float *x;        /* [n_tokens][n_in] */
    uint64_t x_stride;     /* floats from token to token */
    const float *router_x; /* [n_tokens][n_in]: what the router reads; NULL: x */
    uint64_t router_x_stride;
    float *y; /* [n_tokens][n_in] */
    uint64_t y_stride;
    uint32_t n_tokens;
    bool accumulate;
};

struct moe;

/* The functions of one implementation, as a member of struct kernels. */
struct moe_backend {
    /* A multiple of 64. */
    size_t (*workspace_bytes)(const struct moe_config *config, uint32_t n_tokens_max);
    void (*forward)(const struct moe *moe, struct thread_pool *pool,
                    const struct moe_weights *weights, const struct moe_io *io);
};

/* kernels outlives the moe.
 * INVALID_ARGUMENT, with a sentence: a configuration that no model can have. NO_MEMORY. */
MUST_CHECK enum status moe_create(const struct kernels *kernels, const struct moe_config *config,
                                  uint32_t n_tokens_max, struct moe **moe_out, struct error *error);
void moe_destroy(struct moe *moe); /* NULL is fine */

/* For callers that load a layer; forward does not check the weights again.
 * INVALID_ARGUMENT, with a sentence: a matrix is missing, is not used, or no gemm takes it. */
MUST_CHECK enum status moe_check_weights(const struct moe *moe, const struct moe_weights *weights,
                                         struct error *error);

void moe_forward(struct moe *moe, struct thread_pool *pool, const struct moe_weights *weights,
                 const struct moe_io *io);

/* Chooses for one token, in float64: [n_experts] logits to [top_k] ids and weights. The chosen experts
 * are all different, even if a logit is NaN. */
void moe_route(const struct moe_routing *routing, const float *selection_bias, const float *logits,
               uint32_t *ids_out, float *weights_out);
