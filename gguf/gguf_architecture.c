#include "gguf/gguf_architecture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- names ---- */

static const char *const LLAMA_ENDS[][2] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {NULL, NULL},
};

static const char *const LAYER_NAMES[][2] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {NULL, NULL},
};

static const char *const AFTER_BRANCHES[][2] = {
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {NULL, NULL},
};

static const char *const FUSED[][2] = {
    {"attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {"ffn_up.weight", "mlp.gate_up_proj.weight"},
    {NULL, NULL},
};

/* %u: the number of the expert. */
static const char *const EXPERTS[][2] = {
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.experts.%u.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.experts.%u.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.experts.%u.down_proj.weight"},
    {NULL, NULL},
};

static const char *const GPT_OSS[][2] = {
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate_inp.weight", "mlp.router.weight"},
    {"ffn_gate_inp.bias", "mlp.router.bias"},
    {"ffn_gate_exps.weight", "mlp.experts.%u.gate_proj.weight"},
    {"ffn_gate_exps.bias", "mlp.experts.%u.gate_proj.bias"},
    {"ffn_up_exps.weight", "mlp.experts.%u.up_proj.weight"},
    {"ffn_up_exps.bias", "mlp.experts.%u.up_proj.bias"},
    {"ffn_down_exps.weight", "mlp.experts.%u.down_proj.weight"},
    {"ffn_down_exps.bias", "mlp.experts.%u.down_proj.bias"},
    {NULL, NULL},
};

/* Also older files, which have W_uk and W_uv in one. */
static const char *const DEEPSEEK[][2] = {
    {"attn_q_a.weight", "self_attn.q_a_proj.weight"},
    {"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
    {"attn_q_b.weight", "self_attn.q_b_proj.weight"},
    {"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
    {"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
    {"attn_kv_b.weight", "self_attn.kv_b_proj.weight"},
    {"attn_k_b.weight", "self_attn.k_b_proj.weight"},
    {"attn_v_b.weight", "self_attn.v_b_proj.weight"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.experts.%u.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.experts.%u.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.experts.%u.down_proj.weight"},
    {NULL, NULL},
};

static const char *const GEMMA4_ENDS[][2] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {NULL, NULL},
};
/* What scales the weight of an expert that was chosen is called the scale of its down: the result is the same. */
static const char *const GEMMA4[][2] = {
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"inp_gate.weight", "per_layer_input_gate.weight"},
    {"proj.weight", "per_layer_projection.weight"},
    {"post_norm.weight", "post_per_layer_input_norm.weight"},
    {"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
    {"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
    {"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"},
    {"ffn_gate_inp.weight", "router.proj.weight"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"ffn_gate_up_exps.weight", "experts.%u.gate_proj.weight"},
    {"ffn_gate_exps.weight", "experts.%u.gate_proj.weight"},
    {"ffn_up_exps.weight", "experts.%u.up_proj.weight"},
    {"ffn_down_exps.weight", "experts.%u.down_proj.weight"},
    {NULL, NULL},
};

/* Of all three: qwen3next has Q, K, V and Z of a layer with recurrent state in ssm_in or apart, and its gates in ssm_ba. nextn: of
 * layers that predict further tokens. */
static const char *const QWEN_NEXT[][2] = {
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
    {"ssm_in.weight", "linear_attn.in_proj_qkvz.weight"},
    {"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_norm.weight", "linear_attn.norm.weight"},
    {"ssm_out.weight", "linear_attn.out_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    {"ffn_gate_up_exps.weight", "mlp.experts.%u.gate_proj.weight"},
    {"ffn_gate_exps.weight", "mlp.experts.%u.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.experts.%u.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.experts.%u.down_proj.weight"},
    {"nextn.eh_proj.weight", "nextn.eh_proj.weight"},
    {"nextn.enorm.weight", "nextn.enorm.weight"},
    {"nextn.hnorm.weight", "nextn.hnorm.weight"},
    {"nextn.embed_tokens.weight", "nextn.embed_tokens.weight"},
    {"nextn.shared_head_head.weight", "nextn.shared_head_head.weight"},
    {"nextn.shared_head_norm.weight", "nextn.shared_head_norm.weight"},
    {NULL, NULL},
};

/* Of architectures before Llama, with all of their tensors. */

#define BOTH(own, name)                                                                            \
    {own ".weight", name ".weight"},                                                               \
    {                                                                                              \
        own ".bias", name ".bias"                                                                  \
    }

static const char *const GPT2_ENDS[][2] = {{"token_embd.weight", "transformer.wte.weight"},
                                           {"position_embd.weight", "transformer.wpe.weight"},
                                           BOTH("output_norm", "transformer.ln_f"),
                                           {"output.weight", "lm_head.weight"},
                                           {NULL, NULL}};
static const char *const GPT2[][2] = {BOTH("attn_norm", "ln_1"),
                                      BOTH("attn_qkv", "attn.c_attn"),
                                      BOTH("attn_output", "attn.c_proj"),
                                      BOTH("ffn_norm", "ln_2"),
                                      BOTH("ffn_up", "mlp.c_fc"),
                                      BOTH("ffn_down", "mlp.c_proj"),
                                      {NULL, NULL}};

static const char *const NEOX_ENDS[][2] = {{"token_embd.weight", "gpt_neox.embed_in.weight"},
                                           BOTH("output_norm", "gpt_neox.final_layer_norm"),
                                           {"output.weight", "embed_out.weight"},
                                           {NULL, NULL}};
static const char *const NEOX[][2] = {BOTH("attn_norm", "input_layernorm"),
                                      BOTH("attn_qkv", "attention.query_key_value"),
                                      BOTH("attn_output", "attention.dense"),
                                      BOTH("ffn_norm", "post_attention_layernorm"),
                                      BOTH("ffn_up", "mlp.dense_h_to_4h"),
                                      BOTH("ffn_down", "mlp.dense_4h_to_h"),
                                      {NULL, NULL}};

static const char *const BLOOM_ENDS[][2] = {
    {"token_embd.weight", "transformer.word_embeddings.weight"},
    BOTH("token_embd_norm", "transformer.word_embeddings_layernorm"),
    BOTH("output_norm", "transformer.ln_f"),
    {"output.weight", "lm_head.weight"},
    {NULL, NULL}};
static const char *const BLOOM[][2] = {BOTH("attn_norm", "input_layernorm"),
                                       BOTH("attn_qkv", "self_attention.query_key_value"),
                                       BOTH("attn_output", "self_attention.dense"),
                                       BOTH("ffn_norm", "post_attention_layernorm"),
                                       BOTH("ffn_up", "mlp.dense_h_to_4h"),
                                       BOTH("ffn_down", "mlp.dense_4h_to_h"),
                                       {NULL, NULL}};
static const char *const FALCON_TWO_NORMS[][2] = {
    BOTH("attn_norm", "ln_mlp"),
    BOTH("attn_norm_2", "ln_attn"),
    BOTH("attn_qkv", "self_attention.query_key_value"),
    BOTH("attn_output", "self_attention.dense"),
    BOTH("ffn_up", "mlp.dense_h_to_4h"),
    BOTH("ffn_down", "mlp.dense_4h_to_h"),
    {NULL, NULL}};

static const char *const MPT_ENDS[][2] = {{"token_embd.weight", "transformer.wte.weight"},
                                          BOTH("output_norm", "transformer.norm_f"),
                                          {"output.weight", "lm_head.weight"},
                                          {NULL, NULL}};
static const char *const MPT[][2] = {BOTH("attn_norm", "norm_1"),
                                     BOTH("attn_qkv", "attn.Wqkv"),
                                     BOTH("attn_output", "attn.out_proj"),
                                     BOTH("ffn_norm", "norm_2"),
                                     BOTH("ffn_up", "ffn.up_proj"),
                                     BOTH("ffn_down", "ffn.down_proj"),
                                     {NULL, NULL}};

/* T5: wi with a gate is wi_1. The bias of cross attention is of no use to Transformers, either. */

static const char *const T5_ENDS[][2] = {
    {"token_embd.weight", "shared.weight"},
    {"output.weight", "lm_head.weight"},
    {"enc.output_norm.weight", "encoder.final_layer_norm.weight"},
    {"dec.output_norm.weight", "decoder.final_layer_norm.weight"},
    {NULL, NULL},
};

#define T5_ATTENTION                                                                               \
    {"attn_norm.weight", "layer.0.layer_norm.weight"},                                             \
        {"attn_q.weight", "layer.0.SelfAttention.q.weight"},                                       \
        {"attn_k.weight", "layer.0.SelfAttention.k.weight"},                                       \
        {"attn_v.weight", "layer.0.SelfAttention.v.weight"},                                       \
        {"attn_o.weight", "layer.0.SelfAttention.o.weight"},                                       \
    {                                                                                              \
        "attn_rel_b.weight", "layer.0.SelfAttention.relative_attention_bias.weight"                \
    }
#define T5_CROSS                                                                                   \
    {"cross_attn_norm.weight", "layer.1.layer_norm.weight"},                                       \
        {"cross_attn_q.weight", "layer.1.EncDecAttention.q.weight"},                               \
        {"cross_attn_k.weight", "layer.1.EncDecAttention.k.weight"},                               \
        {"cross_attn_v.weight", "layer.1.EncDecAttention.v.weight"},                               \
        {"cross_attn_o.weight", "layer.1.EncDecAttention.o.weight"},                               \
    {                                                                                              \
        "cross_attn_rel_b.weight", "layer.1.EncDecAttention.relative_attention_bias.weight"        \
    }
#define T5_MLP(layer, up)                                                                          \
    {"ffn_norm.weight", layer ".layer_norm.weight"},                                               \
        {"ffn_gate.weight", layer ".DenseReluDense.wi_0.weight"},                                  \
        {"ffn_up.weight", layer ".DenseReluDense." up ".weight"},                                  \
    {                                                                                              \
        "ffn_down.weight", layer ".DenseReluDense.wo.weight"                                       \
    }

static const char *const T5_PLAIN_ENCODER[][2] = {
    T5_ATTENTION, T5_MLP("layer.1", "wi"), {NULL, NULL}};
static const char *const T5_PLAIN[][2] = {
    T5_ATTENTION, T5_CROSS, T5_MLP("layer.2", "wi"), {NULL, NULL}};
static const char *const T5_GATED_ENCODER[][2] = {
    T5_ATTENTION, T5_MLP("layer.1", "wi_1"), {NULL, NULL}};
static const char *const T5_GATED[][2] = {
    T5_ATTENTION, T5_CROSS, T5_MLP("layer.2", "wi_1"), {NULL, NULL}};

/* ---- architectures ---- */

#define T5_ROW(class_name, type, layer_names, names_of_encoder)                                    \
    .name = "t5", .class = class_name, .model_type = type, .names = layer_names, .ends = T5_ENDS,  \
    .layers = "decoder.block.", .encoder_layers = "encoder.block.",                                \
    .encoder_names = names_of_encoder, .has_own_names = true

#define RECURRENT_ROW(class_name, type)                                                            \
    .class = class_name, .model_type = type, .names = QWEN_NEXT, .is_recurrent = true,             \
    .norms_are_whole = true, .rope_part = "partial_rotary_factor"

static const struct gguf_architecture ARCHITECTURES[] = {
    {.name = "llama", .class = "LlamaForCausalLM", .model_type = "llama", .is_interleaved = true},
    {.name = "qwen2", .class = "Qwen2ForCausalLM", .model_type = "qwen2"},
    {.name = "qwen3", .class = "Qwen3ForCausalLM", .model_type = "qwen3"},
    {.name = "qwen3moe",
     .class = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .names = EXPERTS},
    {.name = "gemma", .class = "GemmaForCausalLM", .model_type = "gemma", .norms_are_whole = true},
    {.name = "gemma2",
     .class = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .names = AFTER_BRANCHES,
     .norms_are_whole = true,
     .layers_of_wide_scale = 46},
    {.name = "gemma3",
     .class = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .names = AFTER_BRANCHES,
     .norms_are_whole = true,
     .layers_of_wide_scale = 62},
    {.name = "gemma4",
     .class = "Gemma4ForCausalLM",
     .model_type = "gemma4_text",
     .names = GEMMA4,
     .ends = GEMMA4_ENDS,
     .is_unequal = true},
    {.name = "phi3",
     .class = "Phi3ForCausalLM",
     .model_type = "phi3",
     .names = FUSED,
     .rope_part = "partial_rotary_factor"},
    {.name = "granite",
     .class = "GraniteForCausalLM",
     .model_type = "granite",
     .is_interleaved = true},
    {.name = "olmo2", .class = "Olmo2ForCausalLM", .model_type = "olmo2", .names = AFTER_BRANCHES},
    {.name = "gpt-oss",
     .class = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .names = GPT_OSS,
     .experts_are_apart = true},
    {.name = "mistral3",
     .class = "Ministral3ForCausalLM",
     .model_type = "ministral3",
     .is_interleaved = true,
     .queries_grow = true},
    {.name = "command-r",
     .class = "CohereForCausalLM",
     .model_type = "cohere",
     .has_layer_norm = true},
    {.name = "deepseek2",
     .class = "DeepseekV3ForCausalLM",
     .model_type = "deepseek_v3",
     .names = DEEPSEEK,
     .gating = GGUF_GATING_SIGMOID,
     .is_latent = true},
    {.name = "deepseek2",
     .class = "DeepseekV2ForCausalLM",
     .model_type = "deepseek_v2",
     .names = DEEPSEEK,
     .is_latent = true},
    {.name = "gpt2",
     .class = "GPT2LMHeadModel",
     .model_type = "gpt2",
     .names = GPT2,
     .ends = GPT2_ENDS,
     .layers = "transformer.h.",
     .epsilon = "layer_norm_epsilon",
     .has_own_names = true,
     .qkv_is_plain = true,
     .has_layer_norm = true},
    {.name = "gptneox",
     .class = "GPTNeoXForCausalLM",
     .model_type = "gpt_neox",
     .names = NEOX,
     .ends = NEOX_ENDS,
     .layers = "gpt_neox.layers.",
     .has_own_names = true,
     .qkv_is_plain = true,
     .has_layer_norm = true,
     .rope_part = "rotary_pct"},
    {.name = "bloom",
     .class = "BloomForCausalLM",
     .model_type = "bloom",
     .names = BLOOM,
     .ends = BLOOM_ENDS,
     .layers = "transformer.h.",
     .epsilon = "layer_norm_epsilon",
     .has_own_names = true,
     .qkv_is_plain = true,
     .has_layer_norm = true},
    {.name = "falcon",
     .class = "FalconForCausalLM",
     .model_type = "falcon",
     .names = FALCON_TWO_NORMS,
     .ends = BLOOM_ENDS,
     .layers = "transformer.h.",
     .needs = "blk.0.attn_norm_2.weight",
     .epsilon = "layer_norm_epsilon",
     .has_own_names = true,
     .qkv_is_plain = true,
     .has_layer_norm = true},
    {.name = "falcon",
     .class = "FalconForCausalLM",
     .model_type = "falcon",
     .names = BLOOM,
     .ends = BLOOM_ENDS,
     .layers = "transformer.h.",
     .epsilon = "layer_norm_epsilon",
     .has_own_names = true,
     .qkv_is_plain = true,
     .has_layer_norm = true},
    {.name = "mpt",
     .class = "MptForCausalLM",
     .model_type = "mpt",
     .names = MPT,
     .ends = MPT_ENDS,
     .layers = "transformer.blocks.",
     .epsilon = "layer_norm_epsilon",
     .has_own_names = true,
     .qkv_is_plain = true,
     .has_layer_norm = true},
    {.name = "qwen35",
     RECURRENT_ROW("Qwen3_5ForCausalLM", "qwen3_5_text"),
     .heads_are_tiled = true},
    {.name = "qwen35moe",
     RECURRENT_ROW("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"),
     .heads_are_tiled = true,
     .has_no_mlp = true},
    {.name = "qwen3next", RECURRENT_ROW("Qwen3NextForCausalLM", "qwen3_next")},
    {T5_ROW("UMT5ForConditionalGeneration", "umt5", T5_GATED, T5_GATED_ENCODER),
     .needs = "enc.blk.1.attn_rel_b.weight"},
    {T5_ROW("T5ForConditionalGeneration", "t5", T5_GATED, T5_GATED_ENCODER),
     .needs = "enc.blk.0.ffn_gate.weight"},
    {T5_ROW("T5ForConditionalGeneration", "t5", T5_PLAIN, T5_PLAIN_ENCODER)},
};

#define SUPPORTED                                                                                  \
    "llama, mistral3, qwen2, qwen3, qwen3moe, qwen35, qwen35moe, qwen3next, gemma, gemma2, "       \
    "gemma3, gemma4, phi3, granite, olmo2, gpt-oss, command-r, deepseek2, gpt2, gptneox, bloom, "  \
    "falcon, mpt and t5"

/* Whether the file's experts are chosen as the row says. */
static enum status has_gating(const struct gguf_file *file,
                              const struct gguf_architecture *architecture, bool *has_out,
                              struct error *error)
{
    char key[96];
    uint64_t gating = GGUF_GATING_SOFTMAX;
    snprintf(key, sizeof key, "%s.expert_gating_func", architecture->name);
    *has_out = true;
    if (architecture->gating == 0)
        return STATUS_OK;
    TRY(gguf_u64(file, key, 0, UINT32_MAX, &gating, error));
    *has_out = gating == architecture->gating;
    return STATUS_OK;
}

enum status gguf_architecture_find(const struct gguf_file *file,
                                   const struct gguf_architecture **found_out, struct error *error)
{
    struct gguf_text name = {NULL, 0};
    TRY(gguf_text(file, "general.architecture", &name, error));
    if (!name.bytes)
        return error_set(error, STATUS_CORRUPT, "key general.architecture is missing");
    if (gguf_text_is(name, "t5encoder"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "general.architecture is \"t5encoder\": an encoder alone has no replies");
    for (size_t i = 0; i < COUNT(ARCHITECTURES); i++) {
        const struct gguf_architecture *architecture = &ARCHITECTURES[i];
        bool is_gated;
        if (!gguf_text_is(name, architecture->name) ||
            (architecture->needs && !gguf_find_tensor(file, architecture->needs)))
            continue;
        TRY(has_gating(file, architecture, &is_gated, error));
        if (!is_gated)
            continue;
        *found_out = architecture;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "general.architecture is \"%.*s\", supported in GGUF files are " SUPPORTED
                     ": take the same model as a Hugging Face folder",
                     (int)(name.n < 60 ? name.n : 60), name.bytes);
}

static bool ends_with(struct gguf_text name, const char *ending)
{
    const size_t n = strlen(ending);
    return name.n > n && memcmp(name.bytes + name.n - n, ending, n) == 0;
}

bool gguf_architecture_is_of_experts(struct gguf_text name)
{
    return ends_with(name, "_exps.weight") || ends_with(name, "_exps.bias");
}

bool gguf_architecture_is_scale(struct gguf_text name)
{
    return ends_with(name, ".scale");
}

bool gguf_architecture_is_gate_up(struct gguf_text name)
{
    return ends_with(name, "_gate_up_exps.weight");
}

bool gguf_architecture_is_convolution(struct gguf_text name)
{
    return ends_with(name, ".ssm_conv1d.weight");
}

bool gguf_architecture_is_one_row(struct gguf_text name)
{
    return ends_with(name, ".ffn_gate_inp_shexp.weight");
}

bool gguf_architecture_is_of_heads(struct gguf_text name)
{
    return ends_with(name, ".attn_k_b.weight") || ends_with(name, ".attn_v_b.weight");
}

static const char *find_name(const char *const (*names)[2], const char *own)
{
    for (; names && (*names)[0]; names++)
        if (strcmp(own, (*names)[0]) == 0)
            return (*names)[1];
    return NULL;
}

/* What a name has behind the number of its layer; NULL: it is of no layer, or of another part. */
static const char *behind_layer(const char *own, const char *part, unsigned *layer_out)
{
    char digits[8];
    const size_t n = strlen(part);
    if (strncmp(own, part, n) != 0)
        return NULL;
    const size_t n_digits = strspn(own + n, "0123456789");
    if (n_digits == 0 || n_digits > 6 || own[n + n_digits] != '.')
        return NULL;
    snprintf(digits, sizeof digits, "%.*s", (int)n_digits, own + n);
    *layer_out = (unsigned)strtoul(digits, NULL, 10);
    return own + n + n_digits + 1;
}

void gguf_architecture_name(const struct gguf_architecture *architecture, struct gguf_text name,
                            uint32_t expert, char *name_out, size_t name_max)
{
    char own[GGUF_NAME_MAX + 1];
    unsigned layer = 0;
    const bool has_encoder = architecture->encoder_layers;
    snprintf(own, sizeof own, "%.*s", (int)name.n, name.bytes);
    name_out[0] = '\0';
    const char *end = find_name(architecture->ends ? architecture->ends : LLAMA_ENDS, own);
    if (end)
        snprintf(name_out, name_max, "%s", end);
    const char *rest = behind_layer(own, has_encoder ? "dec.blk." : "blk.", &layer);
    const char *of_encoder = has_encoder ? behind_layer(own, "enc.blk.", &layer) : NULL;
    if (!rest && !of_encoder)
        return;
    const char *found = of_encoder ? find_name(architecture->encoder_names, of_encoder)
                                   : find_name(architecture->names, rest);
    if (!found && !architecture->has_own_names)
        found = find_name(LAYER_NAMES, rest);
    if (!found)
        return;
    if (gguf_architecture_is_gate_up(name)) {
        found = expert % 2 == 0 ? found : find_name(architecture->names, "ffn_up_exps.weight");
        expert /= 2;
    }
    const char *layers = of_encoder             ? architecture->encoder_layers
                         : architecture->layers ? architecture->layers
                                                : "model.layers.";
    const char *number = strstr(found, "%u");
    if (number)
        snprintf(name_out, name_max, "%s%u.%.*s%u%s", layers, layer, (int)(number - found), found,
                 expert, number + 2);
    else
        snprintf(name_out, name_max, "%s%u.%s", layers, layer, found);
}
