/*
 * decoder - the shape of a decoder as data: where its norms stand, how its branches meet the residual stream, what its
 * attention and its ends do. forward/ computes it and knows no family; families.c has a row for each family.
 *
 * All fields zero is the decoder of Llama: RMS norms before each branch, a residual stream in turn, rotation in every
 * layer, a gated MLP with SiLU.
 *
 *     hidden = embedding_scale * embedding[id] (+ positions[index + position_offset])   (then embedding_norm)
 *     a layer, RESIDUAL_IN_TURN:     hidden += residual_scale * after(attention(before(hidden)))
 *                                    hidden += residual_scale * after(mlp(before(hidden)))
 *     RESIDUAL_PARALLEL:             hidden += attention(before(hidden)) + mlp(before(hidden))
 *     RESIDUAL_PARALLEL_TWO_NORMS:   the same, and the MLP has a norm of its own
 *     experts beside the MLP:        mlp(before(hidden)) is after_1(mlp(before(hidden))) + after_2(experts(before_2(hidden))), and
 *                                    the router reads router_scale * RMS(hidden) / sqrt(hidden size)
 *     with an encoder, between the two:  hidden += after(attention over the encoder's K and V(before(hidden)))
 *     has_layer_scale:               hidden *= layer_scale                                   (behind layer_inputs)
 *     logits = cap(logit_scale * head(norm(hidden)))                                    cap(x) = logit_cap tanh(x / logit_cap)
 *
 * Plain data.
 */
#pragma once

#include "kernels/kernel_set.h"

#include <stdbool.h>
#include <stdint.h>

enum norm_kind {
    NORM_RMS,
    NORM_RMS_PLUS_ONE, /* weights are stored less 1 (Gemma) */
    NORM_LAYER,        /* mean and variance */
};

enum norm_place {
    NORM_BEFORE,           /* of each branch */
    NORM_BEFORE_AND_AFTER, /* four a layer: Gemma 2 and 3, GLM-4 */
    NORM_AFTER,            /* OLMo 2 and 3 */
    NORM_AFTER_SUM, /* hidden = norm(hidden + branch): BART. The last one is that of the ends */
};

enum residual { RESIDUAL_IN_TURN, RESIDUAL_PARALLEL, RESIDUAL_PARALLEL_TWO_NORMS };

enum qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEAD, /* RMS norm of each head of Q and K before rotation, the same weights for all heads */
    QK_NORM_ROW,       /* RMS norm of all of Q, and of all of K */
    QK_NORM_EACH_HEAD, /* layer norm of each head, with weights of its own (Command R+) */
};

/* How Q, K and V lie in a matrix of the files. */
enum qkv_layout {
    QKV_SEPARATE,
    QKV_FUSED,    /* all of Q, then K, then V */
    QKV_BY_GROUP, /* for each KV head: its Q heads, K, V (GPT-NeoX, BLOOM, Falcon) */
};

/*
 * Attention over latents (kernels/latent.h), which all heads share: dim 0: none, K and V of heads. W_uk and W_uv are the rows of
 * kv_b_proj for K and for V, a head each.
 *
 *     x          = RMS(q_a hidden) if there is a q_rank, else hidden
 *     nope | rope of a head of q = q x                            [nope_dim | rope_dim]
 *     latent | rope = kv_a hidden, the latent by RMS              the row that is cached
 *     scores     = attention_scale (W_uk^T nope | rotated rope) (latent | rotated rope)
 *     a head     = W_uv (sum of the latents, by softmax of the scores)     [v_dim]
 *
 * (DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434, section 2.1.)
 */
struct latent_shape {
    uint32_t dim;      /* kv_lora_rank */
    uint32_t rope_dim; /* qk_rope_head_dim */
    uint32_t nope_dim; /* qk_nope_head_dim */
    uint32_t v_dim;    /* v_head_dim */
    uint32_t q_rank;   /* q_lora_rank; 0: none */
};

/*
 * A bias of the scores by the distance of key and query (kernels/attention.h, struct attention_bias): n_buckets 0: none.
 * (Raffel et al. 2020, arXiv 1910.10683, section 2.1.)
 */
struct relative_bias {
    uint32_t n_buckets, distance_max;
    bool
        is_in_each_layer; /* each layer has a table of its own (UMT5), else all have the first one's */
};

#define RELATIVE_BUCKETS_MAX  4096u
#define RELATIVE_DISTANCE_MAX 8192u

/*
 * An embedding that each layer has of its own, added behind the MLP (Gemma 4); width 0: none.
 *
 *     own[l]  = (RMS(projection(hidden 0))[l] + sqrt(width) table[id][l]) / sqrt(2)     projection's rows times hidden_size^-1/2
 *     hidden += RMS(out(act(gate(hidden)) * own[l]))                                    in layer l
 */
struct layer_inputs {
    uint32_t width;
    uint32_t vocabulary; /* rows of the table */
};

#define LATENT_NORM_EPS 1e-6f /* of both norms: Transformers gives them no other */

/* Elements of a row of the cache. */
static inline uint32_t latent_row(const struct latent_shape *latent)
{
    return latent->dim + latent->rope_dim;
}

/* The rotation of a layer: struct model_config has two. */
enum layer_rope { ROPE_MAIN, ROPE_LOCAL, ROPE_ABSENT };

/* A zero scale is 1. */
struct decoder {
    enum norm_kind norm;
    enum norm_place norm_place;
    bool norms_have_no_weights; /* OLMo */
    bool norms_have_bias;
    enum residual residual;
    float residual_scale;

    enum qkv_layout qkv_layout;
    bool is_transposed; /* matrices are stored [n_in][n_out]: Conv1D of GPT-2 */
    enum qk_norm qk_norm;
    bool has_v_norm; /* RMS norm of each head of V, without weights */
    struct latent_shape latent;
    float attention_scale; /* the factor of the scores; 0: 1 / sqrt(head_dim) */
    float attention_cap;   /* 0: none */
    float alibi_scale;     /* 0: no ALiBi */
    struct relative_bias relative;
    bool is_encoder; /* every token sees all of its text, which comes in one chunk */
    bool
        has_output_gate; /* attention's output times sigmoid(gate(x)); Q's matrix has both, by heads: Qwen3-Next */
    float
        query_growth; /* Q *= 1 + query_growth log(1 + floor(position / query_positions)); 0: none (Ministral 3) */
    uint32_t query_positions;

    struct layer_inputs layer_inputs;
    bool has_layer_scale; /* hidden *= a number of the layer's, at its end */

    bool has_no_gate; /* down(act(up(x))) */
    bool is_gate_up_fused;
    enum activation activation;

    float embedding_scale;
    bool rounds_embedding_scale; /* to the type of the embedding, as Gemma does */
    bool has_embedding_norm;
    bool has_positions; /* a learned table: positions[index + position_offset] */
    uint32_t position_offset;
    float logit_scale, logit_cap;
    bool has_head_bias;
};
