/*
 * tensor_names - how the files of each kind of model call the tensors of a decoder, and how the tensors lie there.
 *
 * A set has the tensors of the model and those of a layer. A name is root + name; of a layer: root + layers, with the
 * layer's number, + name. A model that was saved without its head has names without the root; Transformers accepts both.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/families.h"
#include "model/config/model_config.h"
#include "model/weights/weights.h"

enum dimension {
    DIM_NONE,
    DIM_HIDDEN,
    DIM_Q,
    DIM_KV,
    DIM_HEAD,
    DIM_FFN,
    DIM_VOCABULARY,
    DIM_POSITIONS,
    DIM_HEADS,
    DIM_KV_HEADS,
    DIM_ONE,
    DIM_EXPERTS,
    DIM_EXPERT,
    DIM_TWO_EXPERT,
    DIM_SHARED,
    DIM_LATENT,
    DIM_LATENT_ROW, /* latent and rotary part */
    DIM_Q_RANK,
    DIM_NOPE,
    DIM_UK, /* rows of uk, and of uv */
    DIM_UV,
    DIM_STATE_KEYS, /* all key heads of a layer with recurrent state; then its value heads, their number, one of them */
    DIM_STATE_VALUES,
    DIM_STATE_HEADS,
    DIM_STATE_HEAD,
    DIM_CONV_CHANNELS,
    DIM_CONV_WIDTH, /* in the files [channels][1][width] */
    DIM_BUCKETS,    /* of a relative bias */
    DIM_INPUT,      /* of layer_inputs: of a layer, of all, rows of the table */
    DIM_INPUTS,
    DIM_INPUT_VOCABULARY,
};

/* When the model has the tensor. */
enum condition {
    ALWAYS,
    IF_NORM_WEIGHT,
    IF_NORM_BIAS,
    IF_MLP_NORM_WEIGHT, /* parallel branches may have one norm alone */
    IF_MLP_NORM_BIAS,
    IF_QKV_BIAS,
    IF_O_BIAS,
    IF_MLP_BIAS,
    IF_QK_NORM,
    IF_ONE_NORM,  /* parallel branches with one norm, or branches in turn: Falcon */
    IF_TWO_NORMS, /* parallel branches with two norms: Falcon */
    IF_IN_TURN,
    IF_SHARED_EXPERT,
    IF_SHARED_SCALE,
    IF_Q_RANK,
    IF_NO_Q_RANK,
    IF_Q_A_BIAS,
    IF_CHOICE, /* a bias of it */
    IF_BESIDE, /* the experts are beside the MLP: their scales */
    IF_GATE,
    IF_NO_GATE,
    IF_OWN_K, /* the layer does not read K and V of another */
    IF_OWN_V, /* nor is V what K is */
    IF_OWN_K_BIAS,
    IF_OWN_V_BIAS,
    IF_LAYER_INPUTS,
};

/* Which rows of the tensor in the file. */
enum tensor_part {
    PART_ALL,
    PART_Q,
    PART_K,
    PART_V,
    PART_GATE,
    PART_UP,
    PART_UK,
    PART_UV,
    PART_HEAD_Q, /* of each head: Q, then the gate of its output */
    PART_HEAD_GATE,
    PART_STATE_Q, /* of a layer with recurrent state: all of Q, then K, then V */
    PART_STATE_K,
    PART_STATE_V,
    PART_GROUP_Q, /* the same for each key head: its Q, K, and of its value heads V, then Z */
    PART_GROUP_K,
    PART_GROUP_V,
    PART_GROUP_Z,
    PART_GROUP_BETA, /* and of its value heads beta, then decay */
    PART_GROUP_DECAY,
    PART_DECAY_LOG, /* all; GGUF files have -exp of it */
};

struct tensor_row {
    const char *name; /* with %u: each row is a tensor of its own, with the row's number */
    size_t offset;    /* in layer_weights, or in weights */
    enum dimension rows, columns;
    enum condition condition;
    enum tensor_part part;
};

#define TENSOR_HEAD "lm_head.weight" /* as Transformers 5 calls every head */

/* A list ends with a row without a name. */
struct tensor_names {
    const char *root, *layers; /* "model.", "layers." */
    const char *embedding, *head;
    const struct tensor_row *of_model;    /* besides the embedding and the head's matrix */
    const struct tensor_row *of_layer[2]; /* norms, attention */
    const struct tensor_row *mlp;         /* of a layer without experts */
    const struct tensor_row *relative;    /* of the first layer, or of each; NULL: none */
    const struct tensor_row *cross;       /* attention to the encoder; NULL: none */
    const char *logits_bias;              /* that files may have; NULL: none */
    /* Of a layer with experts: what all share, and those of one, whose name is expert_prefix, the number, a point and the row's;
     * or one tensor has them of all experts, under the row's name. Offsets of the latter are in expert_weights. */
    const struct tensor_row *of_experts, *of_expert;
    const char *expert_prefix;   /* NULL: one tensor for all */
    bool experts_are_transposed; /* the matrices of that tensor are [n_in][n_out] */
};

/* The scales that a checkpoint has of a layer's K, and of its V: the first one that is there. A list ends with NULL. */
extern const char *const KV_SCALE_NAMES[2][4];

const struct tensor_names *tensor_names_of(const struct model_config *config);

/* Of a layer with recurrent state, in place of those of attention. */
const struct tensor_row *tensor_names_of_recurrent(const struct model_config *config);
/* Some files have one tensor for the experts of a layer, although others of the family have one for each: its rows, as of_expert.
 * NULL: none have. */
const struct tensor_row *tensor_names_of_joined_experts(const struct model_config *config);

/* Of models with an encoder: tensor_names_of has the decoder's, and a description by encoder_config the encoder's. */
const struct tensor_names *tensor_names_of_encoder_model(enum tensor_naming naming,
                                                         bool is_encoder);

/* Whether the row's condition holds in a layer; 0 for tensors of the model. */
bool tensor_is_wanted(const struct model_config *config, uint32_t layer, enum condition condition);
/* 1 for DIM_NONE. */
uint64_t dimension_size(const struct model_config *config, uint32_t layer,
                        enum dimension dimension);
