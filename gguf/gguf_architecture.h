/*
 * gguf_architecture - one row for each architecture of GGUF files: the class of Transformers that it is, and how its tensors
 * are called there.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

/* Values of the key expert_gating_func. */
enum { GGUF_GATING_SOFTMAX = 1, GGUF_GATING_SIGMOID = 2 };

struct gguf_architecture {
    const char *name, *class, *model_type;
    const char *const (*names)
        [2]; /* of a layer's tensors that are called otherwise than Llama's; ends with NULL */
    const char *const (
        *ends)[2];      /* names of the tensors that are of no layer, all of them; NULL: Llama's */
    const char *layers; /* what names of a layer's tensors begin with; NULL: model.layers. */
    const char *encoder_layers; /* likewise, of the encoder, whose names are these; NULL: none */
    const char *const (*encoder_names)[2];
    const char
        *needs; /* a row of several with one name is that of files with this tensor; NULL: of all */
    const char *epsilon; /* the word for a layer norm's; NULL: layer_norm_eps */
    bool has_own_names;  /* names has all of a layer's tensors */
    bool
        qkv_is_plain; /* all of Q, then K, then V, and rows are outputs, whatever Transformers has */
    bool is_interleaved;    /* neighbouring elements of a head are rotated together */
    bool norms_are_whole;   /* Transformers stores norms less 1, the file does not: Gemma */
    bool experts_are_apart; /* Transformers joins gate and up, the file does not: gpt-oss */
    bool has_layer_norm;    /* not RMS */
    bool queries_grow;      /* with their position: Ministral 3 */
    bool is_latent;         /* attention over latents: DeepSeek */
    bool is_unequal;        /* layers differ: Gemma 4, which gguf_gemma4.h reads */
    bool is_recurrent;      /* layers with recurrent state: gguf_recurrent.h */
    bool heads_are_tiled;   /* is_recurrent: value head h is one of key head h % key heads */
    bool has_no_mlp;        /* all layers have experts: the size of an MLP is not said */
    uint8_t gating;         /* a row is that of files with this expert_gating_func; 0: of all */
    const char *
        rope_part; /* the word for the part of a head that rotates; NULL: rope.dimension_count is a head */
    uint16_t
        layers_of_wide_scale; /* Gemma: with so many layers scores are scaled by hidden / heads, else by a head; 0: not Gemma */
};

/* CORRUPT, UNSUPPORTED: the sentence names the key. */
MUST_CHECK enum status gguf_architecture_find(const struct gguf_file *file,
                                              const struct gguf_architecture **found_out,
                                              struct error *error);

/* The name that a folder of Transformers gives to a tensor; "" if the architecture does not use it. One tensor may have the matrices
 * of all experts: expert is the number of one of them. Of those with gate and up, one behind the other, there are two of each. */
void gguf_architecture_name(const struct gguf_architecture *architecture, struct gguf_text name,
                            uint32_t expert, char *name_out, size_t name_max);
/* Whether a tensor scales another one as a whole, by its name. */
bool gguf_architecture_is_scale(struct gguf_text name);
/* Whether a tensor has gate and up of all experts. */
bool gguf_architecture_is_gate_up(struct gguf_text name);

/* Whether a tensor convolves channels one by one: the folder has [channels][1][width]. */
bool gguf_architecture_is_convolution(struct gguf_text name);
/* Whether a tensor is a matrix of one row, which some files have as a vector. */
bool gguf_architecture_is_one_row(struct gguf_text name);
/* Whether a tensor has a matrix for each head, one after the other. */
bool gguf_architecture_is_of_heads(struct gguf_text name);
/* Whether a tensor has the matrices, or the biases, of all experts. */
bool gguf_architecture_is_of_experts(struct gguf_text name);
