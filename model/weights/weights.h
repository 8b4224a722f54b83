/*
 * weights - the tensors of a model, sorted by their use in the decoder.
 *
 * Matrices are [n_out][n_in], row-major. They are in the mapped safetensors file, with any alignment and each with its
 * own dtype; or INT8, and packed if this machine's kernels want that. For a device that does not read the host's memory
 * they are copies on the device (placed_weights.h). A tensor that the model does not have (a bias, a norm) has data
 * NULL. One table has names, shapes and conditions (tensor_names.c).
 *
 * Thread: immutable while the model lives.
 */
#pragma once

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* A matrix of a quantized checkpoint: whole numbers, with a scale and perhaps a zero point for each group of a row. n_out: the
 * rows in the files. */
enum source_layout {
    LAYOUT_ELEMENTS, /* not quantized */
    LAYOUT_AWQ,      /* words [n_in][n_out / 8], elements in the order 0 2 4 6 1 3 5 7 */
    LAYOUT_GPTQ,     /* words [n_in * bits / 32][n_out] */
    LAYOUT_PACKED,   /* compressed-tensors: words [n_out][n_in * bits / 32] */
    LAYOUT_INT8,     /* [n_out][n_in] */
    LAYOUT_E4M3, /* [n_out][n_in]: used in place, unless rows come by turns; its scales become F32 */
    LAYOUT_MXFP4, /* [n_out][n_in / 2] bytes, the first of two elements in the low half; scales E8M0, [n_out][n_in / 32] */
};

struct quantized_source {
    enum source_layout layout;
    uint8_t bits;
    uint32_t group; /* elements of a row that share a scale */
    const void *
        scales; /* AWQ, GPTQ: [groups][n_out]; PACKED, INT8: [n_out][groups]; E4M3: as struct gemm */
    enum dtype scale_dtype;
    const uint8_t *zeros;  /* packed as the layout says; NULL: the middle of the range */
    const uint8_t *groups; /* [n_in] I32, the group of each element; NULL: in order */
    bool zero_is_less_one;
};

/* A tensor whose elements lie otherwise in the files (rearranged_weights.h): row o is row first + o / run * period + o % run
 * of a matrix of n_rows rows there. data NULL: the tensor is used in place. */
struct tensor_source {
    const void *data;
    const void *const
        *rows; /* [n_rows] each row is a tensor of its own; data is the first; NULL: one matrix */
    uint32_t first, run, period, n_rows;
    bool is_transposed; /* the matrix is [n_in][n_rows] */
    /* W_uk: a matrix of so many columns for each head, turned; 0: none. Row o, element i is element o % turned of row
     * first + o / turned * period + i in the file. */
    uint32_t turned;
    bool is_of_heads; /* W_uk or W_uv of all heads: both are copied */
    bool is_widened;  /* the tensor becomes F32 */
    bool adds_one;    /* every element is stored less 1; is_widened, too */
    bool is_rate;     /* every element x is stored as -exp(x); is_widened, too */
    struct quantized_source quantized;
};

static inline uint32_t tensor_row_in_file(const struct tensor_source *source, uint32_t row)
{
    return source->first + row / source->run * source->period + row % source->run;
}

struct tensor {
    const void *data;
    enum dtype dtype;
    uint32_t n_out, n_in; /* n_in is 1 for a vector */
    /* INT8, E4M3: as in struct gemm; scales NULL when packed. */
    const void *scales;
    uint32_t scale_rows, scale_columns; /* rows 0: 1 */
    bool is_packed;
    uint64_t packed_bytes; /* if packed */
    struct tensor_source source;
};

static inline uint32_t tensor_scale_rows(const struct tensor *tensor)
{
    return tensor->scale_rows ? tensor->scale_rows : 1;
}

/* With latents (struct latent_shape in decoder.h) Q reads hidden, or what q_a makes of it, and k is kv_a; there is no v. uk and
 * uv have n_out rows for all heads, one head after the other. */
struct layer_weights {
    struct tensor attention_norm; /* [hidden], as all norms but those of Q and K */
    struct tensor attention_norm_bias, attention_after_norm;
    struct tensor q;    /* [n_heads * head_dim][hidden] */
    struct tensor k, v; /* [n_kv_heads * head_dim][hidden]; v_is_k: no v; kv_back: neither */
    struct tensor output_gate, output_gate_bias; /* as q: sigmoid of it times attention's output */
    struct tensor q_bias, k_bias, v_bias;
    struct tensor q_a, q_a_bias, q_a_norm; /* [q_rank][hidden], [q_rank] */
    struct tensor latent_norm;             /* [dim] */
    struct tensor uk;                      /* [n_heads * dim][nope_dim] */
    struct tensor uv;                      /* [n_heads * v_dim][dim] */
    struct tensor sinks;                   /* [n_heads] */
    struct tensor q_norm,
        k_norm; /* [head_dim]; QK_NORM_ROW: [n_heads * head_dim], [n_kv_heads * head_dim]; QK_NORM_EACH_HEAD: of two dimensions */
    struct tensor o; /* [hidden][n_heads * head_dim]; latents: [hidden][n_heads * v_dim] */
    struct tensor o_bias;
    /* Attention to the encoder, of a decoder that has one: as those above; K and V read the encoder's rows. */
    struct tensor cross_norm, cross_norm_bias, cross_q, cross_k, cross_v, cross_o;
    struct tensor cross_q_bias, cross_k_bias, cross_v_bias, cross_o_bias;
    struct tensor relative_bias; /* [n_buckets][n_heads], of the first layer or of each */
    /* A layer with recurrent state has these, in heads of struct recurrent_sizes: q and k of the key heads, v and output_gate (z) of
     * the value heads, o from these; and: */
    struct tensor decay, beta;           /* [recurrent n_heads][hidden] */
    struct tensor conv;                  /* [channels of q, k, v][conv_width] */
    struct tensor decay_log, decay_bias; /* A_log, dt_bias: [recurrent n_heads] */
    struct tensor state_norm;            /* [value_dim], the same for all heads */
    struct tensor mlp_norm, mlp_norm_bias, mlp_after_norm;
    struct tensor gate, up; /* [ffn][hidden]; no gate: up alone */
    struct tensor down;     /* [hidden][ffn] */
    struct tensor gate_bias, up_bias, down_bias;
    /* With decoder.layer_inputs: */
    struct tensor input_gate; /* [width][hidden] */
    struct tensor input_out;  /* [hidden][width] */
    struct tensor input_after_norm;
    struct tensor scale; /* [1]: decoder.has_layer_scale */
    /* A layer with experts has no MLP of its own, but perhaps a shared expert. With experts_are_beside_mlp it has one, and: */
    struct tensor mlp_own_after_norm, experts_norm, experts_after_norm;
    struct tensor router_scale;  /* [hidden] */
    struct tensor expert_scales; /* [n_experts] F32, aligned */
    /* All: */
    struct tensor router, router_bias;                 /* [n_experts][hidden] */
    struct tensor selection_bias;                      /* [n_experts] F32, aligned */
    struct tensor shared_gate, shared_up, shared_down; /* as those of an expert */
    struct tensor shared_scale; /* [1][hidden]: how much the shared expert counts */
};

/* One of a layer's experts. */
struct expert_weights {
    struct tensor gate, up; /* [n_inner][hidden]; interleaved: gate alone, [2 n_inner] */
    struct tensor down;     /* [hidden][n_inner] */
    struct tensor gate_bias, up_bias, down_bias;
};

/* What an encoder has beside its layers. It reads the decoder's embedding. */
struct encoder_ends {
    struct tensor embedding_norm, embedding_norm_bias;
    struct tensor positions; /* [context_tokens + position_offset][hidden] */
    struct tensor norm, norm_bias;
};

struct weights {
    struct tensor embedding; /* [vocabulary][hidden] */
    struct tensor embedding_norm, embedding_norm_bias;
    struct tensor positions; /* [context_tokens + position_offset][hidden] */
    /* With decoder.layer_inputs: */
    struct tensor layer_inputs;     /* [layer_inputs.vocabulary][n_layers * width] */
    struct tensor input_projection; /* [n_layers * width][hidden] */
    struct tensor input_norm;       /* [width], of each layer's part */
    struct tensor norm, norm_bias;
    struct tensor head_bias; /* [vocabulary] */
    struct tensor head;      /* [vocabulary][hidden]; the embedding if tied */
    struct encoder_ends encoder;
    uint32_t n_encoder_layers;
    /* [n_layers + the encoder's], those of the encoder last; experts the same */
    struct layer_weights *layers;
    struct expert_weights *
        *experts; /* [layers][n_experts]; NULL: a layer without; the model owns both arrays */
    const void **
        norm_rows; /* [n_layers][n_heads + n_kv_heads]; NULL: Q and K have no norms of that kind; the model owns it */
};
