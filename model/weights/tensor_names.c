#include "model/weights/tensor_names.h"

#include <assert.h>
#include <stddef.h>

#define LAYER(name, member, rows, columns, condition)                                              \
    {                                                                                              \
        name, offsetof(struct layer_weights, member), rows, columns, condition, PART_ALL           \
    }
#define PART(name, member, rows, columns, condition, part)                                         \
    {                                                                                              \
        name, offsetof(struct layer_weights, member), rows, columns, condition, part               \
    }
#define MODEL(name, member, rows, columns, condition)                                              \
    {                                                                                              \
        name, offsetof(struct weights, member), rows, columns, condition, PART_ALL                 \
    }
#define NORM(name, member)                                                                         \
    LAYER(name ".weight", member, DIM_HIDDEN, DIM_NONE, IF_NORM_WEIGHT),                           \
        LAYER(name ".bias", member##_bias, DIM_HIDDEN, DIM_NONE, IF_NORM_BIAS)
#define MLP_NORM(name)                                                                             \
    LAYER(name ".weight", mlp_norm, DIM_HIDDEN, DIM_NONE, IF_MLP_NORM_WEIGHT),                     \
        LAYER(name ".bias", mlp_norm_bias, DIM_HIDDEN, DIM_NONE, IF_MLP_NORM_BIAS)
#define MODEL_NORM(name, member)                                                                   \
    MODEL(name ".weight", member, DIM_HIDDEN, DIM_NONE, IF_NORM_WEIGHT),                           \
        MODEL(name ".bias", member##_bias, DIM_HIDDEN, DIM_NONE, IF_NORM_BIAS)

/* ---- attention ---- */

#define SEPARATE_QKV(prefix)                                                                       \
    LAYER(prefix "q_proj.weight", q, DIM_Q, DIM_HIDDEN, ALWAYS),                                   \
        LAYER(prefix "k_proj.weight", k, DIM_KV, DIM_HIDDEN, ALWAYS),                              \
        LAYER(prefix "v_proj.weight", v, DIM_KV, DIM_HIDDEN, ALWAYS),                              \
        LAYER(prefix "q_proj.bias", q_bias, DIM_Q, DIM_NONE, IF_QKV_BIAS),                         \
        LAYER(prefix "k_proj.bias", k_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS),                        \
        LAYER(prefix "v_proj.bias", v_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS)
#define FUSED_QKV(name)                                                                            \
    PART(name ".weight", q, DIM_Q, DIM_HIDDEN, ALWAYS, PART_Q),                                    \
        PART(name ".weight", k, DIM_KV, DIM_HIDDEN, ALWAYS, PART_K),                               \
        PART(name ".weight", v, DIM_KV, DIM_HIDDEN, ALWAYS, PART_V),                               \
        PART(name ".bias", q_bias, DIM_Q, DIM_NONE, IF_QKV_BIAS, PART_Q),                          \
        PART(name ".bias", k_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS, PART_K),                         \
        PART(name ".bias", v_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS, PART_V)
#define OUTPUT(name)                                                                               \
    LAYER(name ".weight", o, DIM_HIDDEN, DIM_Q, ALWAYS),                                           \
        LAYER(name ".bias", o_bias, DIM_HIDDEN, DIM_NONE, IF_O_BIAS)

static const struct tensor_row ATTENTION[] = {
    SEPARATE_QKV("self_attn."), OUTPUT("self_attn.o_proj"), {0}};
static const struct tensor_row ATTENTION_HEAD_NORM[] = {
    SEPARATE_QKV("self_attn."),
    LAYER("self_attn.q_norm.weight", q_norm, DIM_HEAD, DIM_NONE, IF_QK_NORM),
    LAYER("self_attn.k_norm.weight", k_norm, DIM_HEAD, DIM_NONE, IF_QK_NORM),
    OUTPUT("self_attn.o_proj"),
    {0}};
static const struct tensor_row ATTENTION_ROW_NORM[] = {
    SEPARATE_QKV("self_attn."),
    LAYER("self_attn.q_norm.weight", q_norm, DIM_Q, DIM_NONE, ALWAYS),
    LAYER("self_attn.k_norm.weight", k_norm, DIM_KV, DIM_NONE, ALWAYS),
    OUTPUT("self_attn.o_proj"),
    {0}};
static const struct tensor_row ATTENTION_PHI3[] = {
    FUSED_QKV("self_attn.qkv_proj"), OUTPUT("self_attn.o_proj"), {0}};
static const struct tensor_row ATTENTION_PHI[] = {
    SEPARATE_QKV("self_attn."), OUTPUT("self_attn.dense"), {0}};
static const struct tensor_row ATTENTION_GPT2[] = {
    FUSED_QKV("attn.c_attn"), OUTPUT("attn.c_proj"), {0}};
static const struct tensor_row ATTENTION_NEOX[] = {
    FUSED_QKV("attention.query_key_value"), OUTPUT("attention.dense"), {0}};
static const struct tensor_row ATTENTION_GPTJ[] = {
    SEPARATE_QKV("attn."), OUTPUT("attn.out_proj"), {0}};
static const struct tensor_row ATTENTION_OPT[] = {
    SEPARATE_QKV("self_attn."), OUTPUT("self_attn.out_proj"), {0}};
static const struct tensor_row ATTENTION_BLOOM[] = {
    FUSED_QKV("self_attention.query_key_value"), OUTPUT("self_attention.dense"), {0}};
static const struct tensor_row ATTENTION_MPT[] = {
    FUSED_QKV("attn.Wqkv"), OUTPUT("attn.out_proj"), {0}};

/* ---- MLP ---- */

#define INNER(name, member)                                                                        \
    LAYER(name ".weight", member, DIM_FFN, DIM_HIDDEN, ALWAYS),                                    \
        LAYER(name ".bias", member##_bias, DIM_FFN, DIM_NONE, IF_MLP_BIAS)
#define OUTER(name)                                                                                \
    LAYER(name ".weight", down, DIM_HIDDEN, DIM_FFN, ALWAYS),                                      \
        LAYER(name ".bias", down_bias, DIM_HIDDEN, DIM_NONE, IF_MLP_BIAS)

static const struct tensor_row MLP[] = {
    INNER("mlp.gate_proj", gate), INNER("mlp.up_proj", up), OUTER("mlp.down_proj"), {0}};
static const struct tensor_row MLP_FUSED[] = {
    PART("mlp.gate_up_proj.weight", gate, DIM_FFN, DIM_HIDDEN, ALWAYS, PART_GATE),
    PART("mlp.gate_up_proj.weight", up, DIM_FFN, DIM_HIDDEN, ALWAYS, PART_UP),
    OUTER("mlp.down_proj"),
    {0}};
static const struct tensor_row MLP_PHI[] = {INNER("mlp.fc1", up), OUTER("mlp.fc2"), {0}};
static const struct tensor_row MLP_GPT2[] = {INNER("mlp.c_fc", up), OUTER("mlp.c_proj"), {0}};
static const struct tensor_row MLP_GPTJ[] = {INNER("mlp.fc_in", up), OUTER("mlp.fc_out"), {0}};
static const struct tensor_row MLP_OPT[] = {INNER("fc1", up), OUTER("fc2"), {0}};
static const struct tensor_row MLP_NEOX[] = {
    INNER("mlp.dense_h_to_4h", up), OUTER("mlp.dense_4h_to_h"), {0}};
static const struct tensor_row MLP_MPT[] = {INNER("ffn.up_proj", up), OUTER("ffn.down_proj"), {0}};

/* ---- norms ---- */

static const struct tensor_row NORMS[] = {
    NORM("input_layernorm", attention_norm), MLP_NORM("post_attention_layernorm"), {0}};
static const struct tensor_row NORMS_GEMMA2[] = {
    NORM("input_layernorm", attention_norm),
    LAYER("post_attention_layernorm.weight", attention_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    MLP_NORM("pre_feedforward_layernorm"),
    LAYER("post_feedforward_layernorm.weight", mlp_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    {0}};
static const struct tensor_row NORMS_OLMO2[] = {
    LAYER("post_attention_layernorm.weight", attention_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER("post_feedforward_layernorm.weight", mlp_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    {0}};
static const struct tensor_row NORMS_GLM4[] = {
    NORM("input_layernorm", attention_norm),
    LAYER("post_self_attn_layernorm.weight", attention_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    MLP_NORM("post_attention_layernorm"),
    LAYER("post_mlp_layernorm.weight", mlp_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    {0}};
static const struct tensor_row NORMS_GPT2[] = {NORM("ln_1", attention_norm), MLP_NORM("ln_2"), {0}};
static const struct tensor_row NORM_GPTJ[] = {NORM("ln_1", attention_norm), {0}};
static const struct tensor_row NORMS_OPT[] = {
    NORM("self_attn_layer_norm", attention_norm), MLP_NORM("final_layer_norm"), {0}};
static const struct tensor_row NORMS_MPT[] = {
    NORM("norm_1", attention_norm), MLP_NORM("norm_2"), {0}};
#define NORM_IF(name, member, condition)                                                           \
    LAYER(name ".weight", member, DIM_HIDDEN, DIM_NONE, condition),                                \
        LAYER(name ".bias", member##_bias, DIM_HIDDEN, DIM_NONE, condition)
static const struct tensor_row NORMS_FALCON[] = {
    NORM_IF("input_layernorm", attention_norm, IF_ONE_NORM),
    NORM_IF("post_attention_layernorm", mlp_norm, IF_IN_TURN),
    NORM_IF("ln_attn", attention_norm, IF_TWO_NORMS),
    NORM_IF("ln_mlp", mlp_norm, IF_TWO_NORMS),
    {0}};

/* ---- the model ---- */

static const struct tensor_row ENDS[] = {MODEL_NORM("norm", norm), {0}};
static const struct tensor_row ENDS_PHI[] = {MODEL_NORM("final_layernorm", norm), {0}};
static const struct tensor_row ENDS_GPT2[] = {
    MODEL("wpe.weight", positions, DIM_POSITIONS, DIM_HIDDEN, ALWAYS),
    MODEL_NORM("ln_f", norm),
    {0}};
static const struct tensor_row ENDS_LN_F[] = {MODEL_NORM("ln_f", norm), {0}};
static const struct tensor_row ENDS_NEOX[] = {MODEL_NORM("final_layer_norm", norm), {0}};
static const struct tensor_row ENDS_OPT[] = {
    MODEL("embed_positions.weight", positions, DIM_POSITIONS, DIM_HIDDEN, ALWAYS),
    MODEL_NORM("final_layer_norm", norm),
    {0}};
static const struct tensor_row ENDS_BLOOM[] = {
    MODEL_NORM("word_embeddings_layernorm", embedding_norm), MODEL_NORM("ln_f", norm), {0}};
static const struct tensor_row ENDS_MPT[] = {MODEL_NORM("norm_f", norm), {0}};

static const char EMBEDDING[] = "embed_tokens.weight", HEAD[] = TENSOR_HEAD;

static const struct tensor_names SETS[] = {
    [NAMED_AS_LLAMA] =
        {"model.", "layers.", EMBEDDING, HEAD, ENDS, {NORMS, ATTENTION_HEAD_NORM, MLP}},
    [NAMED_AS_GEMMA2] =
        {"model.", "layers.", EMBEDDING, HEAD, ENDS, {NORMS_GEMMA2, ATTENTION_HEAD_NORM, MLP}},
    [NAMED_AS_OLMO2] =
        {"model.", "layers.", EMBEDDING, HEAD, ENDS, {NORMS_OLMO2, ATTENTION_ROW_NORM, MLP}},
    [NAMED_AS_PHI3] =
        {"model.", "layers.", EMBEDDING, HEAD, ENDS, {NORMS, ATTENTION_PHI3, MLP_FUSED}},
    [NAMED_AS_GLM4] =
        {"model.", "layers.", EMBEDDING, HEAD, ENDS, {NORMS_GLM4, ATTENTION, MLP_FUSED}},
    [NAMED_AS_PHI] =
        {"model.", "layers.", EMBEDDING, HEAD, ENDS_PHI, {NORMS, ATTENTION_PHI, MLP_PHI}},
    [NAMED_AS_GPT2] = {"transformer.",
                       "h.",
                       "wte.weight",
                       HEAD,
                       ENDS_GPT2,
                       {NORMS_GPT2, ATTENTION_GPT2, MLP_GPT2}},
    [NAMED_AS_GPT_NEOX] = {"gpt_neox.",
                           "layers.",
                           "embed_in.weight",
                           "embed_out.weight",
                           ENDS_NEOX,
                           {NORMS, ATTENTION_NEOX, MLP_NEOX}},
    [NAMED_AS_GPTJ] = {"transformer.",
                       "h.",
                       "wte.weight",
                       HEAD,
                       ENDS_LN_F,
                       {NORM_GPTJ, ATTENTION_GPTJ, MLP_GPTJ}},
    [NAMED_AS_OPT] = {"model.decoder.",
                      "layers.",
                      EMBEDDING,
                      HEAD,
                      ENDS_OPT,
                      {NORMS_OPT, ATTENTION_OPT, MLP_OPT}},
    [NAMED_AS_BLOOM] = {"transformer.",
                        "h.",
                        "word_embeddings.weight",
                        HEAD,
                        ENDS_BLOOM,
                        {NORMS, ATTENTION_BLOOM, MLP_NEOX}},
    [NAMED_AS_FALCON] = {"transformer.",
                         "h.",
                         "word_embeddings.weight",
                         HEAD,
                         ENDS_LN_F,
                         {NORMS_FALCON, ATTENTION_BLOOM, MLP_NEOX}},
    [NAMED_AS_MPT] = {"transformer.",
                      "blocks.",
                      "wte.weight",
                      HEAD,
                      ENDS_MPT,
                      {NORMS_MPT, ATTENTION_MPT, MLP_MPT}},
};

const struct tensor_names *tensor_names_of(const struct model_config *config)
{
    const struct family *family = family_at(config->family);
    assert(family);
    return &SETS[family->naming];
}

bool tensor_is_wanted(const struct model_config *config, enum condition condition)
{
    const struct decoder *decoder = &config->decoder;
    switch (condition) {
    case IF_NORM_WEIGHT:
        return !decoder->norms_have_no_weights;
    case IF_NORM_BIAS:
        return decoder->norms_have_bias;
    case IF_MLP_NORM_WEIGHT:
        return !decoder->norms_have_no_weights && decoder->residual != RESIDUAL_PARALLEL;
    case IF_MLP_NORM_BIAS:
        return decoder->norms_have_bias && decoder->residual != RESIDUAL_PARALLEL;
    case IF_QKV_BIAS:
        return config->qkv_bias;
    case IF_O_BIAS:
        return config->o_bias;
    case IF_MLP_BIAS:
        return config->mlp_bias;
    case IF_QK_NORM:
        return decoder->qk_norm != QK_NORM_NONE;
    case IF_ONE_NORM:
        return decoder->residual != RESIDUAL_PARALLEL_TWO_NORMS;
    case IF_TWO_NORMS:
        return decoder->residual == RESIDUAL_PARALLEL_TWO_NORMS;
    case IF_IN_TURN:
        return decoder->residual == RESIDUAL_IN_TURN;
    case ALWAYS:
        break;
    }
    return true;
}

uint64_t dimension_size(const struct model_config *config, enum dimension dimension)
{
    switch (dimension) {
    case DIM_HIDDEN:
        return config->hidden;
    case DIM_Q:
        return (uint64_t)config->n_heads * config->head_dim;
    case DIM_KV:
        return (uint64_t)config->n_kv_heads * config->head_dim;
    case DIM_HEAD:
        return config->head_dim;
    case DIM_FFN:
        return config->ffn;
    case DIM_VOCABULARY:
        return config->vocabulary;
    case DIM_POSITIONS:
        return (uint64_t)config->context_tokens + config->decoder.position_offset;
    case DIM_NONE:
        break;
    }
    return 1;
}
