#include "model/weights/tensor_names.h"

#include "model/config/layer_shape.h"
#include "model/weights/tensor_rows.h"

#include <assert.h>

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
static const struct tensor_row ATTENTION_COHERE[] = {
    SEPARATE_QKV("self_attn."),
    LAYER("self_attn.q_norm.weight", q_norm, DIM_HEADS, DIM_HEAD, IF_QK_NORM),
    LAYER("self_attn.k_norm.weight", k_norm, DIM_KV_HEADS, DIM_HEAD, IF_QK_NORM),
    OUTPUT("self_attn.o_proj"),
    {0}};
static const struct tensor_row ATTENTION_STABLELM[] = {
    SEPARATE_QKV("self_attn."),
    LAYER("self_attn.q_layernorm.norms.%u.weight", q_norm, DIM_HEADS, DIM_HEAD, IF_QK_NORM),
    LAYER("self_attn.k_layernorm.norms.%u.weight", k_norm, DIM_KV_HEADS, DIM_HEAD, IF_QK_NORM),
    OUTPUT("self_attn.o_proj"),
    {0}};
static const struct tensor_row ATTENTION_GPT_OSS[] = {
    SEPARATE_QKV("self_attn."),
    OUTPUT("self_attn.o_proj"),
    LAYER("self_attn.sinks", sinks, DIM_HEADS, DIM_NONE, ALWAYS),
    {0}};
#define LATENT                                                                                     \
    LAYER("self_attn.q_proj.weight", q, DIM_Q, DIM_HIDDEN, IF_NO_Q_RANK),                          \
        LAYER("self_attn.q_a_proj.weight", q_a, DIM_Q_RANK, DIM_HIDDEN, IF_Q_RANK),                \
        LAYER("self_attn.q_a_proj.bias", q_a_bias, DIM_Q_RANK, DIM_NONE, IF_Q_A_BIAS),             \
        LAYER("self_attn.q_a_layernorm.weight", q_a_norm, DIM_Q_RANK, DIM_NONE, IF_Q_RANK),        \
        LAYER("self_attn.q_b_proj.weight", q, DIM_Q, DIM_Q_RANK, IF_Q_RANK),                       \
        LAYER("self_attn.kv_a_proj_with_mqa.weight", k, DIM_LATENT_ROW, DIM_HIDDEN, ALWAYS),       \
        LAYER("self_attn.kv_a_proj_with_mqa.bias", k_bias, DIM_LATENT_ROW, DIM_NONE, IF_QKV_BIAS), \
        LAYER("self_attn.kv_a_layernorm.weight", latent_norm, DIM_LATENT, DIM_NONE, ALWAYS)
#define LATENT_OUTPUT                                                                              \
    LAYER("self_attn.o_proj.weight", o, DIM_HIDDEN, DIM_UV, ALWAYS),                               \
        LAYER("self_attn.o_proj.bias", o_bias, DIM_HIDDEN, DIM_NONE, IF_O_BIAS)

static const struct tensor_row ATTENTION_DEEPSEEK[] = {
    LATENT,
    PART("self_attn.kv_b_proj.weight", uk, DIM_UK, DIM_NOPE, ALWAYS, PART_UK),
    PART("self_attn.kv_b_proj.weight", uv, DIM_UV, DIM_LATENT, ALWAYS, PART_UV),
    LATENT_OUTPUT,
    {0}};

/* New GGUF files have W_uk, turned, and W_uv. */
static const struct tensor_row ATTENTION_DEEPSEEK_APART[] = {
    LATENT,
    LAYER("self_attn.k_b_proj.weight", uk, DIM_UK, DIM_NOPE, ALWAYS),
    LAYER("self_attn.v_b_proj.weight", uv, DIM_UV, DIM_LATENT, ALWAYS),
    LATENT_OUTPUT,
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

#define GATED_QKV(prefix)                                                                          \
    PART(prefix "q_proj.weight", q, DIM_Q, DIM_HIDDEN, ALWAYS, PART_HEAD_Q),                       \
        PART(prefix "q_proj.weight", output_gate, DIM_Q, DIM_HIDDEN, ALWAYS, PART_HEAD_GATE),      \
        LAYER(prefix "k_proj.weight", k, DIM_KV, DIM_HIDDEN, ALWAYS),                              \
        LAYER(prefix "v_proj.weight", v, DIM_KV, DIM_HIDDEN, ALWAYS),                              \
        PART(prefix "q_proj.bias", q_bias, DIM_Q, DIM_NONE, IF_QKV_BIAS, PART_HEAD_Q),             \
        PART(prefix "q_proj.bias", output_gate_bias, DIM_Q, DIM_NONE, IF_QKV_BIAS,                 \
             PART_HEAD_GATE),                                                                      \
        LAYER(prefix "k_proj.bias", k_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS),                        \
        LAYER(prefix "v_proj.bias", v_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS)
static const struct tensor_row ATTENTION_GATED[] = {
    GATED_QKV("self_attn."),
    LAYER("self_attn.q_norm.weight", q_norm, DIM_HEAD, DIM_NONE, IF_QK_NORM),
    LAYER("self_attn.k_norm.weight", k_norm, DIM_HEAD, DIM_NONE, IF_QK_NORM),
    OUTPUT("self_attn.o_proj"),
    {0}};

static const struct tensor_row ATTENTION_GEMMA4[] = {
    LAYER("self_attn.q_proj.weight", q, DIM_Q, DIM_HIDDEN, ALWAYS),
    LAYER("self_attn.k_proj.weight", k, DIM_KV, DIM_HIDDEN, IF_OWN_K),
    LAYER("self_attn.v_proj.weight", v, DIM_KV, DIM_HIDDEN, IF_OWN_V),
    LAYER("self_attn.q_proj.bias", q_bias, DIM_Q, DIM_NONE, IF_QKV_BIAS),
    LAYER("self_attn.k_proj.bias", k_bias, DIM_KV, DIM_NONE, IF_OWN_K_BIAS),
    LAYER("self_attn.v_proj.bias", v_bias, DIM_KV, DIM_NONE, IF_OWN_V_BIAS),
    LAYER("self_attn.q_norm.weight", q_norm, DIM_HEAD, DIM_NONE, ALWAYS),
    LAYER("self_attn.k_norm.weight", k_norm, DIM_HEAD, DIM_NONE, IF_OWN_K),
    OUTPUT("self_attn.o_proj"),
    {0}};

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

/* ---- experts ---- */

static const struct tensor_row ROUTER_MIXTRAL[] = {
    LAYER("block_sparse_moe.gate.weight", router, DIM_EXPERTS, DIM_HIDDEN, ALWAYS), {0}};
static const struct tensor_row EXPERT_MIXTRAL[] = {
    EXPERT("w1.weight", gate, DIM_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("w3.weight", up, DIM_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("w2.weight", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    {0}};
#define SHARED(prefix)                                                                             \
    LAYER(prefix "gate_proj.weight", shared_gate, DIM_SHARED, DIM_HIDDEN, IF_SHARED_EXPERT),       \
        LAYER(prefix "up_proj.weight", shared_up, DIM_SHARED, DIM_HIDDEN, IF_SHARED_EXPERT),       \
        LAYER(prefix "down_proj.weight", shared_down, DIM_HIDDEN, DIM_SHARED, IF_SHARED_EXPERT)
static const struct tensor_row ROUTER_QWEN[] = {
    LAYER("mlp.gate.weight", router, DIM_EXPERTS, DIM_HIDDEN, ALWAYS),
    SHARED("mlp.shared_expert."),
    LAYER("mlp.shared_expert_gate.weight", shared_scale, DIM_ONE, DIM_HIDDEN, IF_SHARED_SCALE),
    {0}};
static const struct tensor_row EXPERT_QWEN[] = {
    EXPERT("gate_proj.weight", gate, DIM_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("up_proj.weight", up, DIM_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("down_proj.weight", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    {0}};
static const struct tensor_row ROUTER_DEEPSEEK[] = {
    LAYER("mlp.gate.weight", router, DIM_EXPERTS, DIM_HIDDEN, ALWAYS),
    LAYER("mlp.gate.e_score_correction_bias", selection_bias, DIM_EXPERTS, DIM_NONE, IF_CHOICE),
    SHARED("mlp.shared_experts."),
    {0}};
static const struct tensor_row ROUTER_GRANITE[] = {
    LAYER("block_sparse_moe.router.layer.weight", router, DIM_EXPERTS, DIM_HIDDEN, ALWAYS), {0}};
static const struct tensor_row EXPERT_GRANITE[] = {
    EXPERT("block_sparse_moe.input_linear.weight", gate, DIM_EXPERT, DIM_HIDDEN, PART_GATE),
    EXPERT("block_sparse_moe.input_linear.weight", up, DIM_EXPERT, DIM_HIDDEN, PART_UP),
    EXPERT("block_sparse_moe.output_linear.weight", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    {0}};
static const struct tensor_row ROUTER_GPT_OSS[] = {
    LAYER("mlp.router.weight", router, DIM_EXPERTS, DIM_HIDDEN, ALWAYS),
    LAYER("mlp.router.bias", router_bias, DIM_EXPERTS, DIM_NONE, ALWAYS),
    {0}};
static const struct tensor_row EXPERT_GPT_OSS[] = {
    EXPERT("mlp.experts.gate_up_proj", gate, DIM_TWO_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("mlp.experts.gate_up_proj_bias", gate_bias, DIM_TWO_EXPERT, DIM_NONE, PART_ALL),
    EXPERT("mlp.experts.down_proj", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    EXPERT("mlp.experts.down_proj_bias", down_bias, DIM_HIDDEN, DIM_NONE, PART_ALL),
    {0}};

/* GGUF files have gate and up apart. */
static const struct tensor_row EXPERT_GPT_OSS_APART[] = {
    EXPERT("gate_proj.weight", gate, DIM_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("gate_proj.bias", gate_bias, DIM_EXPERT, DIM_NONE, PART_ALL),
    EXPERT("up_proj.weight", up, DIM_EXPERT, DIM_HIDDEN, PART_ALL),
    EXPERT("up_proj.bias", up_bias, DIM_EXPERT, DIM_NONE, PART_ALL),
    EXPERT("down_proj.weight", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    EXPERT("down_proj.bias", down_bias, DIM_HIDDEN, DIM_NONE, PART_ALL),
    {0}};

static const struct tensor_row ROUTER_GEMMA4[] = {
    LAYER("router.proj.weight", router, DIM_EXPERTS, DIM_HIDDEN, ALWAYS),
    LAYER("router.scale", router_scale, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER("router.per_expert_scale", expert_scales, DIM_EXPERTS, DIM_NONE, IF_BESIDE),
    LAYER("post_feedforward_layernorm_1.weight", mlp_own_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER("pre_feedforward_layernorm_2.weight", experts_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER("post_feedforward_layernorm_2.weight", experts_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    {0}};

/* ---- norms ---- */

static const struct tensor_row NORMS[] = {
    NORM("input_layernorm", attention_norm), MLP_NORM("post_attention_layernorm"), {0}};
static const struct tensor_row NORMS_GEMMA2[] = {
    NORM("input_layernorm", attention_norm),
    LAYER("post_attention_layernorm.weight", attention_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    MLP_NORM("pre_feedforward_layernorm"),
    LAYER("post_feedforward_layernorm.weight", mlp_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    {0}};
static const struct tensor_row NORMS_GEMMA4[] = {
    NORM("input_layernorm", attention_norm),
    LAYER("post_attention_layernorm.weight", attention_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    MLP_NORM("pre_feedforward_layernorm"),
    LAYER("post_feedforward_layernorm.weight", mlp_after_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER("layer_scalar", scale, DIM_ONE, DIM_NONE, ALWAYS),
    LAYER("per_layer_input_gate.weight", input_gate, DIM_INPUT, DIM_HIDDEN, IF_LAYER_INPUTS),
    LAYER("per_layer_projection.weight", input_out, DIM_HIDDEN, DIM_INPUT, IF_LAYER_INPUTS),
    LAYER("post_per_layer_input_norm.weight", input_after_norm, DIM_HIDDEN, DIM_NONE,
          IF_LAYER_INPUTS),
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
static const struct tensor_row ENDS_GEMMA4[] = {
    MODEL("embed_tokens_per_layer.weight", layer_inputs, DIM_INPUT_VOCABULARY, DIM_INPUTS,
          IF_LAYER_INPUTS),
    MODEL("per_layer_model_projection.weight", input_projection, DIM_INPUTS, DIM_HIDDEN,
          IF_LAYER_INPUTS),
    MODEL("per_layer_projection_norm.weight", input_norm, DIM_INPUT, DIM_NONE, IF_LAYER_INPUTS),
    MODEL_NORM("norm", norm),
    {0}};
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

#define DENSE(root, layers, embedding, head, ends, norms, attention, mlp)                          \
    {                                                                                              \
        root, layers, embedding, head, ends, {norms, attention}, mlp, NULL, NULL, NULL, NULL,      \
            NULL, NULL, false                                                                      \
    }
/* Named as Llama's, but for attention and experts. */
#define EXPERTS(attention, shared, one, prefix, is_transposed)                                     \
    {                                                                                              \
        "model.", "layers.", EMBEDDING, HEAD, ENDS, {NORMS, attention}, MLP, NULL, NULL, NULL,     \
            shared, one, prefix, is_transposed                                                     \
    }

static const struct tensor_names SETS[] = {
    [NAMED_AS_LLAMA] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS, ATTENTION_HEAD_NORM,
                             MLP),
    [NAMED_AS_MIXTRAL] = EXPERTS(ATTENTION, ROUTER_MIXTRAL, EXPERT_MIXTRAL,
                                 "block_sparse_moe.experts.", false),
    [NAMED_AS_QWEN_MOE] = EXPERTS(ATTENTION_HEAD_NORM, ROUTER_QWEN, EXPERT_QWEN, "mlp.experts.",
                                  false),
    [NAMED_AS_OLMOE] = EXPERTS(ATTENTION_ROW_NORM, ROUTER_QWEN, EXPERT_QWEN, "mlp.experts.", false),
    [NAMED_AS_GRANITE_MOE] = EXPERTS(ATTENTION, ROUTER_GRANITE, EXPERT_GRANITE, NULL, false),
    [NAMED_AS_GPT_OSS] = EXPERTS(ATTENTION_GPT_OSS, ROUTER_GPT_OSS, EXPERT_GPT_OSS, NULL, true),
    [NAMED_AS_GPT_OSS_APART] = EXPERTS(ATTENTION_GPT_OSS, ROUTER_GPT_OSS, EXPERT_GPT_OSS_APART,
                                       "mlp.experts.", false),
    [NAMED_AS_COHERE] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS, ATTENTION_COHERE,
                              MLP),
    [NAMED_AS_GEMMA2] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS_GEMMA2,
                              ATTENTION_HEAD_NORM, MLP),
    [NAMED_AS_OLMO2] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS_OLMO2,
                             ATTENTION_ROW_NORM, MLP),
    [NAMED_AS_PHI3] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS, ATTENTION_PHI3,
                            MLP_FUSED),
    [NAMED_AS_GLM4] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS_GLM4, ATTENTION,
                            MLP_FUSED),
    [NAMED_AS_PHI] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS_PHI, NORMS, ATTENTION_PHI,
                           MLP_PHI),
    [NAMED_AS_GPT2] = DENSE("transformer.", "h.", "wte.weight", HEAD, ENDS_GPT2, NORMS_GPT2,
                            ATTENTION_GPT2, MLP_GPT2),
    [NAMED_AS_GPT_NEOX] = DENSE("gpt_neox.", "layers.", "embed_in.weight", "embed_out.weight",
                                ENDS_NEOX, NORMS, ATTENTION_NEOX, MLP_NEOX),
    [NAMED_AS_GPTJ] = DENSE("transformer.", "h.", "wte.weight", HEAD, ENDS_LN_F, NORM_GPTJ,
                            ATTENTION_GPTJ, MLP_GPTJ),
    [NAMED_AS_OPT] = DENSE("model.decoder.", "layers.", EMBEDDING, HEAD, ENDS_OPT, NORMS_OPT,
                           ATTENTION_OPT, MLP_OPT),
    [NAMED_AS_BLOOM] = DENSE("transformer.", "h.", "word_embeddings.weight", HEAD, ENDS_BLOOM,
                             NORMS, ATTENTION_BLOOM, MLP_NEOX),
    [NAMED_AS_FALCON] = DENSE("transformer.", "h.", "word_embeddings.weight", HEAD, ENDS_LN_F,
                              NORMS_FALCON, ATTENTION_BLOOM, MLP_NEOX),
    [NAMED_AS_MPT] = DENSE("transformer.", "blocks.", "wte.weight", HEAD, ENDS_MPT, NORMS_MPT,
                           ATTENTION_MPT, MLP_MPT),
    [NAMED_AS_STABLELM] = DENSE("model.", "layers.", EMBEDDING, HEAD, ENDS, NORMS,
                                ATTENTION_STABLELM, MLP),
    [NAMED_AS_DEEPSEEK] = EXPERTS(ATTENTION_DEEPSEEK, ROUTER_DEEPSEEK, EXPERT_QWEN, "mlp.experts.",
                                  false),
    [NAMED_AS_DEEPSEEK_APART] = EXPERTS(ATTENTION_DEEPSEEK_APART, ROUTER_DEEPSEEK, EXPERT_QWEN,
                                        "mlp.experts.", false),
    [NAMED_AS_QWEN_NEXT] = EXPERTS(ATTENTION_GATED, ROUTER_QWEN, EXPERT_QWEN, "mlp.experts.",
                                   false),
    [NAMED_AS_QWEN3_5] = EXPERTS(ATTENTION_GATED, ROUTER_QWEN, EXPERT_QWEN, "mlp.experts.", false),
    [NAMED_AS_GEMMA4] = {.root = "model.",
                         .layers = "layers.",
                         .embedding = EMBEDDING,
                         .head = HEAD,
                         .of_model = ENDS_GEMMA4,
                         .of_layer = {NORMS_GEMMA4, ATTENTION_GEMMA4},
                         .mlp = MLP,
                         .of_experts = ROUTER_GEMMA4,
                         .of_expert = EXPERT_QWEN,
                         .expert_prefix = "experts."},
};

const char *const KV_SCALE_NAMES[2][4] = {
    {"self_attn.k_scale", "self_attn.k_proj.k_scale", "self_attn.kv_scale"},
    {"self_attn.v_scale", "self_attn.v_proj.v_scale", "self_attn.kv_scale"},
};

const struct tensor_names *tensor_names_of(const struct model_config *config)
{
    const struct family *family = family_at(config->family);
    assert(family);
    if (family->naming >= NAMED_AS_T5)
        return tensor_names_of_encoder_model(family->naming, config->decoder.is_encoder);
    if (family->naming == NAMED_AS_GPT_OSS && !config->experts.is_interleaved)
        return &SETS[NAMED_AS_GPT_OSS_APART];
    if (family->naming == NAMED_AS_DEEPSEEK && config->kv_b_is_apart)
        return &SETS[NAMED_AS_DEEPSEEK_APART];
    return &SETS[family->naming];
}

bool tensor_is_wanted(const struct model_config *config, uint32_t layer, enum condition condition)
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
    case IF_SHARED_EXPERT:
        return config->experts.n_shared_inner > 0;
    case IF_SHARED_SCALE:
        return config->has_shared_scale;
    case IF_Q_RANK:
    case IF_NO_Q_RANK:
        return (decoder->latent.q_rank > 0) == (condition == IF_Q_RANK);
    case IF_Q_A_BIAS:
        return decoder->latent.q_rank > 0 && config->qkv_bias;
    case IF_CHOICE:
        return config->has_selection_bias;
    case IF_BESIDE:
        return config->experts_are_beside_mlp;
    case IF_GATE:
    case IF_NO_GATE:
        return decoder->has_no_gate == (condition == IF_NO_GATE);
    case IF_OWN_K:
        return layer_has_kv(config, layer);
    case IF_OWN_V:
        return layer_has_kv(config, layer) && !config->v_is_k[layer];
    case IF_OWN_K_BIAS:
        return config->qkv_bias && tensor_is_wanted(config, layer, IF_OWN_K);
    case IF_OWN_V_BIAS:
        return config->qkv_bias && tensor_is_wanted(config, layer, IF_OWN_V);
    case IF_LAYER_INPUTS:
        return decoder->layer_inputs.width > 0;
    case ALWAYS:
        break;
    }
    return true;
}

static uint64_t recurrent_size(const struct recurrent_sizes *sizes, enum dimension dimension)
{
    const uint64_t keys = (uint64_t)sizes->n_key_heads * sizes->key_dim;
    const uint64_t values = (uint64_t)sizes->n_heads * sizes->value_dim;
    switch (dimension) {
    case DIM_STATE_KEYS:
        return keys;
    case DIM_STATE_VALUES:
        return values;
    case DIM_STATE_HEADS:
        return sizes->n_heads;
    case DIM_STATE_HEAD:
        return sizes->value_dim;
    case DIM_CONV_CHANNELS:
        return 2 * keys + values;
    default:
        return sizes->conv_width;
    }
}

static uint64_t input_size(const struct model_config *config, enum dimension dimension)
{
    const struct layer_inputs *inputs = &config->decoder.layer_inputs;
    if (dimension == DIM_INPUT_VOCABULARY)
        return inputs->vocabulary;
    return dimension == DIM_INPUT ? inputs->width : (uint64_t)config->n_layers * inputs->width;
}

static uint64_t latent_size(const struct model_config *config, enum dimension dimension)
{
    const struct latent_shape *latent = &config->decoder.latent;
    switch (dimension) {
    case DIM_LATENT:
        return latent->dim;
    case DIM_LATENT_ROW:
        return latent_row(latent);
    case DIM_Q_RANK:
        return latent->q_rank;
    case DIM_NOPE:
        return latent->nope_dim;
    case DIM_UK:
        return (uint64_t)config->n_heads * latent->dim;
    default:
        return (uint64_t)config->n_heads * latent->v_dim;
    }
}

uint64_t dimension_size(const struct model_config *config, uint32_t layer, enum dimension dimension)
{
    switch (dimension) {
    case DIM_HIDDEN:
        return config->hidden;
    case DIM_Q:
        return (uint64_t)config->n_heads * layer_head_dim(config, layer);
    case DIM_KV:
        return (uint64_t)layer_kv_heads(config, layer) * layer_head_dim(config, layer);
    case DIM_HEAD:
        return layer_head_dim(config, layer);
    case DIM_FFN:
        return layer_ffn(config, layer);
    case DIM_INPUT:
    case DIM_INPUTS:
    case DIM_INPUT_VOCABULARY:
        return input_size(config, dimension);
    case DIM_VOCABULARY:
        return config->vocabulary;
    case DIM_POSITIONS:
        return (uint64_t)config->context_tokens + config->decoder.position_offset;
    case DIM_HEADS:
        return config->n_heads;
    case DIM_KV_HEADS:
        return config->n_kv_heads;
    case DIM_EXPERTS:
        return config->experts.routing.n_experts;
    case DIM_EXPERT:
        return config->experts.n_inner;
    case DIM_TWO_EXPERT:
        return 2 * (uint64_t)config->experts.n_inner;
    case DIM_SHARED:
        return config->experts.n_shared_inner;
    case DIM_LATENT:
    case DIM_LATENT_ROW:
    case DIM_Q_RANK:
    case DIM_NOPE:
    case DIM_UK:
    case DIM_UV:
        return latent_size(config, dimension);
    case DIM_STATE_KEYS:
    case DIM_STATE_VALUES:
    case DIM_STATE_HEADS:
    case DIM_STATE_HEAD:
    case DIM_CONV_CHANNELS:
    case DIM_CONV_WIDTH:
        return recurrent_size(&config->recurrent, dimension);
    case DIM_BUCKETS:
        return config->decoder.relative.n_buckets;
    case DIM_ONE:
    case DIM_NONE:
        break;
    }
    return 1;
}
