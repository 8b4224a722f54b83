/* The names of models with an encoder: tensor_names.h declares them. */
#include "model/weights/tensor_names.h"
#include "model/weights/tensor_rows.h"

#include <assert.h>

/* ---- T5 ---- */

#define T5_QKVO(layer, prefix)                                                                     \
    LAYER(layer ".q.weight", prefix##q, DIM_Q, DIM_HIDDEN, ALWAYS),                                \
        LAYER(layer ".k.weight", prefix##k, DIM_KV, DIM_HIDDEN, ALWAYS),                           \
        LAYER(layer ".v.weight", prefix##v, DIM_KV, DIM_HIDDEN, ALWAYS),                           \
        LAYER(layer ".o.weight", prefix##o, DIM_HIDDEN, DIM_Q, ALWAYS)
#define T5_MLP(layer)                                                                              \
    LAYER(layer ".layer_norm.weight", mlp_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),                     \
        LAYER(layer ".DenseReluDense.wi.weight", up, DIM_FFN, DIM_HIDDEN, IF_NO_GATE),             \
        LAYER(layer ".DenseReluDense.wi_0.weight", gate, DIM_FFN, DIM_HIDDEN, IF_GATE),            \
        LAYER(layer ".DenseReluDense.wi_1.weight", up, DIM_FFN, DIM_HIDDEN, IF_GATE),              \
        LAYER(layer ".DenseReluDense.wo.weight", down, DIM_HIDDEN, DIM_FFN, ALWAYS)

static const struct tensor_row NORM_T5[] = {
    LAYER("layer.0.layer_norm.weight", attention_norm, DIM_HIDDEN, DIM_NONE, ALWAYS), {0}};
static const struct tensor_row ATTENTION_T5[] = {T5_QKVO("layer.0.SelfAttention", ), {0}};
static const struct tensor_row RELATIVE_T5[] = {
    LAYER("layer.0.SelfAttention.relative_attention_bias.weight", relative_bias, DIM_BUCKETS,
          DIM_HEADS, ALWAYS),
    {0}};
static const struct tensor_row CROSS_T5[] = {
    LAYER("layer.1.layer_norm.weight", cross_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    T5_QKVO("layer.1.EncDecAttention", cross_),
    {0}};
static const struct tensor_row MLP_T5_ENCODER[] = {T5_MLP("layer.1"), {0}};
static const struct tensor_row MLP_T5_DECODER[] = {T5_MLP("layer.2"), {0}};
static const struct tensor_row ENDS_T5_ENCODER[] = {
    MODEL("encoder.final_layer_norm.weight", norm, DIM_HIDDEN, DIM_NONE, ALWAYS), {0}};
static const struct tensor_row ENDS_T5_DECODER[] = {
    MODEL("decoder.final_layer_norm.weight", norm, DIM_HIDDEN, DIM_NONE, ALWAYS), {0}};

/* ---- BART ---- */

#define BOTH(name, member, rows, columns)                                                          \
    LAYER(name ".weight", member, rows, columns, ALWAYS),                                          \
        LAYER(name ".bias", member##_bias, rows, DIM_NONE, ALWAYS)
#define BART_QKVO(name, prefix)                                                                    \
    BOTH(name ".q_proj", prefix##q, DIM_Q, DIM_HIDDEN),                                            \
        BOTH(name ".k_proj", prefix##k, DIM_KV, DIM_HIDDEN),                                       \
        BOTH(name ".v_proj", prefix##v, DIM_KV, DIM_HIDDEN),                                       \
        BOTH(name ".out_proj", prefix##o, DIM_HIDDEN, DIM_Q)
#define END(name, member)                                                                          \
    MODEL(name ".weight", member, DIM_HIDDEN, DIM_NONE, ALWAYS),                                   \
        MODEL(name ".bias", member##_bias, DIM_HIDDEN, DIM_NONE, ALWAYS)
#define BART_ENDS(part)                                                                            \
    END(part ".layernorm_embedding", embedding_norm),                                              \
        MODEL(part ".embed_positions.weight", positions, DIM_POSITIONS, DIM_HIDDEN, ALWAYS)

static const struct tensor_row NORMS_BART[] = {
    BOTH("self_attn_layer_norm", attention_norm, DIM_HIDDEN, DIM_NONE),
    BOTH("final_layer_norm", mlp_norm, DIM_HIDDEN, DIM_NONE),
    {0}};
static const struct tensor_row ATTENTION_BART[] = {BART_QKVO("self_attn", ), {0}};
static const struct tensor_row CROSS_BART[] = {
    BOTH("encoder_attn_layer_norm", cross_norm, DIM_HIDDEN, DIM_NONE),
    BART_QKVO("encoder_attn", cross_),
    {0}};
static const struct tensor_row MLP_BART[] = {
    BOTH("fc1", up, DIM_FFN, DIM_HIDDEN), BOTH("fc2", down, DIM_HIDDEN, DIM_FFN), {0}};
static const struct tensor_row ENDS_BART_ENCODER[] = {BART_ENDS("encoder"), {0}};
static const struct tensor_row ENDS_BART_DECODER[] = {BART_ENDS("decoder"), {0}};
static const struct tensor_row ENDS_MBART_ENCODER[] = {
    BART_ENDS("encoder"), END("encoder.layer_norm", norm), {0}};
static const struct tensor_row ENDS_MBART_DECODER[] = {
    BART_ENDS("decoder"), END("decoder.layer_norm", norm), {0}};

static const struct tensor_names T5_ENCODER = {
    .root = "",
    .layers = "encoder.block.",
    .embedding = "shared.weight",
    .head = TENSOR_HEAD,
    .of_model = ENDS_T5_ENCODER,
    .of_layer = {NORM_T5, ATTENTION_T5},
    .mlp = MLP_T5_ENCODER,
    .relative = RELATIVE_T5,
};
static const struct tensor_names T5_DECODER = {
    .root = "",
    .layers = "decoder.block.",
    .embedding = "shared.weight",
    .head = TENSOR_HEAD,
    .of_model = ENDS_T5_DECODER,
    .of_layer = {NORM_T5, ATTENTION_T5},
    .mlp = MLP_T5_DECODER,
    .relative = RELATIVE_T5,
    .cross = CROSS_T5,
};

#define BART(part, ends, of_cross)                                                                 \
    {                                                                                              \
        .root = "model.", .layers = part ".layers.", .embedding = "shared.weight",                 \
        .head = TENSOR_HEAD, .of_model = ends, .of_layer = {NORMS_BART, ATTENTION_BART},           \
        .mlp = MLP_BART, .cross = of_cross, .logits_bias = "final_logits_bias",                    \
    }
static const struct tensor_names BART_ENCODER = BART("encoder", ENDS_BART_ENCODER, NULL);
static const struct tensor_names BART_DECODER = BART("decoder", ENDS_BART_DECODER, CROSS_BART);
static const struct tensor_names MBART_ENCODER = BART("encoder", ENDS_MBART_ENCODER, NULL);
static const struct tensor_names MBART_DECODER = BART("decoder", ENDS_MBART_DECODER, CROSS_BART);

const struct tensor_names *tensor_names_of_encoder_model(enum tensor_naming naming, bool is_encoder)
{
    switch (naming) {
    case NAMED_AS_T5:
        return is_encoder ? &T5_ENCODER : &T5_DECODER;
    case NAMED_AS_BART:
        return is_encoder ? &BART_ENCODER : &BART_DECODER;
    default:
        assert(naming == NAMED_AS_MBART);
        return is_encoder ? &MBART_ENCODER : &MBART_DECODER;
    }
}
