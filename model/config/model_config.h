/*
 * model_config - the description of a decoder, as config.json and generation_config.json give it (config_file.h).
 *
 * One description serves every family, in the spellings of Transformers 4 and 5: families.c has the rows, decoder.h what they
 * vary.
 *
 * Plain data: copy it freely.
 */
#pragma once

#include "kernels/moe.h"
#include "kernels/rope.h"
#include "model/config/decoder.h"
#include "model/config/quantization.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYERS_MAX         512u
#define HIDDEN_MAX         65536u
#define HEADS_MAX          1024u
#define FFN_MAX            (1u << 20)
#define VOCABULARY_MAX     (1u << 24)
#define EOS_IDS_MAX        256u
#define SUPPRESSED_IDS_MAX 256u
#define LATENT_HEAD_MAX    1024u /* of nope_dim and of v_dim */

/* LongRoPE's frequencies: divided by the short factors, if no more than original_positions are served, else by the long ones. So
 * they are the same for all sequences of a process, and K of a short prompt can begin a long one. */
struct rope_factors {
    double short_ones[ROPE_FACTORS_MAX], long_ones[ROPE_FACTORS_MAX]; /* [n] */
    uint32_t n;
    bool is_long; /* which of them are used */
};

/* Of layers with recurrent state (kernels/recurrent.h): gated DeltaNet. */
struct recurrent_sizes {
    uint32_t n_key_heads; /* divides n_heads */
    uint32_t n_heads;
    uint32_t key_dim, value_dim; /* of a head: multiples of 8 up to DELTA_DIM_MAX */
    uint32_t conv_width;
    /* As GGUF files have them: */
    bool
        heads_are_tiled; /* head h is one of the key head h % n_key_heads, not h / (n_heads / n_key_heads) */
    bool decays_are_rates; /* -exp(A_log) in its place */
    bool qkvz_is_apart;    /* Qwen3-Next: q, k, v in order, then z by itself, as Qwen3.5 has them */
};

/*
 * What stands before a decoder that attends to another text, too (T5, BART): after self attention each of its layers attends to K
 * and V that it makes of the encoder's last rows. n_layers 0: the model is a decoder alone. What is not here is as in the decoder;
 * encoder_config (encoder_config.h) describes the encoder as a decoder is described.
 */
struct encoder_shape {
    uint32_t n_layers, n_heads, head_dim, ffn;
    uint32_t start_id; /* the decoder's first token */
    /* What the first token of a reply must be, and the last one of a reply that is as long as it may be; TOKEN_NONE: any. */
    uint32_t forced_first_id, forced_last_id;
};

#define TOKEN_NONE UINT32_MAX

struct model_config {
    uint32_t family; /* family_at */
    bool
        is_text_of_more; /* the text part of a model that also sees: what is left of it is not used */
    struct decoder decoder;
    struct quantization quantization;
    uint32_t hidden;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads; /* divides n_heads */
    uint32_t
        head_dim; /* a multiple of 8 up to HEAD_DIM_MAX; n_heads * head_dim need not be hidden. With latents: of Q, any size */
    uint32_t ffn; /* intermediate size of the MLP */
    uint32_t vocabulary;
    /* Positions that are served: max_position_embeddings, or more with YaRN (rope_parameters.h). */
    uint32_t context_tokens;
    float norm_eps;
    bool qkv_bias, o_bias, mlp_bias;
    bool
        tied_embeddings; /* the output head is the embedding; after loading: whether it really is */
    /* rope_local is that of layers with ROPE_LOCAL; equal to rope if no layer has it. */
    struct rope_config rope, rope_local;
    uint8_t layer_ropes[LAYERS_MAX];  /* [n_layers] enum layer_rope */
    struct rope_factors rope_factors; /* of rope, if it is LongRoPE */
    bool has_sinks;                   /* a logit a head in the denominator of attention */
    /* routing.n_experts 0: no layer has experts. n_in is hidden. */
    struct moe_config experts;
    bool has_shared_scale;   /* the shared expert counts by a sigmoid */
    bool kv_b_is_apart;      /* the files have W_uk and W_uv: GGUF */
    bool has_selection_bias; /* of the experts' choice: struct moe_weights */
    uint32_t
        n_skipped_layers; /* behind the last one: they predict further tokens and are not computed */
    uint8_t has_experts[LAYERS_MAX]; /* [n_layers] */
    bool experts_are_beside_mlp;     /* a layer with experts has an MLP, too (decoder.h) */
    uint32_t windows[LAYERS_MAX];    /* [n_layers]: query i sees keys i - window + 1 .. i; 0: all */

    /* Where layers differ: layer_shape.h. Zeros: all are alike. */
    uint32_t wide_head_dim, wide_kv_heads; /* of layers with is_wide, in place of the two above */
    uint8_t is_wide[LAYERS_MAX];           /* [n_layers] */
    uint8_t v_is_k[LAYERS_MAX];            /* [n_layers]: V is what K is before its norm; no v */
    /* [n_layers]: so many layers back is the one whose K and V it reads: it has no k and v; 0: it has its own. */
    uint16_t kv_back[LAYERS_MAX];
    uint32_t sharing_ffn; /* of layers that read K and V of others; 0: ffn */

    struct recurrent_sizes recurrent; /* zeros: no layer has recurrent state */
    /* [n_layers]: in place of attention, and so of K and V (kv_layers.h). One layer at least has attention. */
    uint8_t is_recurrent[LAYERS_MAX];

    struct encoder_shape encoder;

    bool is_gguf; /* read from a GGUF file, whose rows of Q and K may lie otherwise */

    uint32_t n_eos_ids;
    uint32_t eos_ids[EOS_IDS_MAX]; /* of both files, each once */
    uint32_t n_suppressed;
    uint32_t suppressed_ids[SUPPRESSED_IDS_MAX]; /* never drawn (suppressed_tokens.h); each once */
};

/* What a token has in the cache of a layer: K and V of n_heads heads of dim elements each; latents: one row of dim elements, whose
 * first latent_dim ones are V, too. */
struct cache_shape {
    uint32_t n_heads, dim, latent_dim; /* latent_dim 0: K and V */
};

static inline struct cache_shape model_cache_shape(const struct model_config *config)
{
    const struct latent_shape *latent = &config->decoder.latent;
    return latent->dim > 0 ? (struct cache_shape){1, latent_row(latent), latent->dim}
                           : (struct cache_shape){config->n_kv_heads, config->head_dim, 0};
}

/* Elements that attention computes for a token, in the widest layer. */
static inline uint32_t model_attended_width(const struct model_config *config)
{
    const struct latent_shape *latent = &config->decoder.latent;
    const uint32_t head_dim = config->wide_head_dim > config->head_dim ? config->wide_head_dim
                                                                       : config->head_dim;
    return config->n_heads * (latent->dim > 0 ? latent->v_dim : head_dim);
}
