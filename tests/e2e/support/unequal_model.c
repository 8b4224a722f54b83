#include "unequal_model.h"

#include "model_writer.h"

#include <stdint.h>
#include <stdio.h>

enum {
    HIDDEN = 64,
    VOCABULARY = 2048,
    LAYERS = 6,
    FIRST_SHARING = 4,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 16,
    WIDE_DIM = 32,
    FFN = 64,
    INPUT = 16,
    EXPERTS = 4,
    EXPERT_FFN = 32,
};

#define MEMBERS                                                                                    \
    "\"architectures\": [\"Gemma4ForCausalLM\"], \"model_type\": \"gemma4_text\", "                \
    "\"hidden_size\": 64, \"vocab_size\": 2048, \"num_hidden_layers\": 6, "                        \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "                   \
    "\"global_head_dim\": 32, \"intermediate_size\": 64, \"sliding_window\": 48, "                 \
    "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", "      \
    "\"full_attention\", \"sliding_attention\", \"full_attention\"], "                             \
    "\"num_kv_shared_layers\": 2, \"use_double_wide_mlp\": true, "                                 \
    "\"hidden_size_per_layer_input\": 16, \"vocab_size_per_layer_input\": 2048, "                  \
    "\"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-06, "                                 \
    "\"hidden_activation\": \"gelu_pytorch_tanh\", \"final_logit_softcapping\": 30.0, "            \
    "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"bos_token_id\": 2046, "      \
    "\"eos_token_id\": 2047"

static const char CONFIG[] = "{" MEMBERS "}";
static const char CONFIG_WITH_EXPERTS[] =
    "{" MEMBERS ", \"enable_moe_block\": true, \"num_experts\": 4, \"top_k_experts\": 2, "
    "\"moe_intermediate_size\": 32}";

static void add_norm(struct model_writer *writer, uint32_t layer, const char *name)
{
    model_writer_add_of_layer(writer, layer, name, HIDDEN, 0);
}

static void add_attention(struct model_writer *writer, uint32_t layer)
{
    const uint32_t dim = layer == 3 || layer == 5 ? WIDE_DIM : HEAD_DIM;
    model_writer_add_of_layer(writer, layer, "self_attn.q_proj.weight", HEADS * dim, HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.q_norm.weight", dim, 0);
    model_writer_add_of_layer(writer, layer, "self_attn.o_proj.weight", HIDDEN, HEADS * dim);
    if (layer >= FIRST_SHARING)
        return;
    model_writer_add_of_layer(writer, layer, "self_attn.k_proj.weight", KV_HEADS * dim, HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.v_proj.weight", KV_HEADS * dim, HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.k_norm.weight", dim, 0);
}

static void add_layer(struct model_writer *writer, uint32_t layer)
{
    const uint32_t ffn = layer >= FIRST_SHARING ? 2 * FFN : FFN;
    char name[64];
    add_norm(writer, layer, "input_layernorm.weight");
    add_attention(writer, layer);
    add_norm(writer, layer, "post_attention_layernorm.weight");
    add_norm(writer, layer, "pre_feedforward_layernorm.weight");
    model_writer_add_of_layer(writer, layer, "mlp.gate_proj.weight", ffn, HIDDEN);
    model_writer_add_of_layer(writer, layer, "mlp.up_proj.weight", ffn, HIDDEN);
    model_writer_add_of_layer(writer, layer, "mlp.down_proj.weight", HIDDEN, ffn);
    add_norm(writer, layer, "post_feedforward_layernorm.weight");
    model_writer_add_of_layer(writer, layer, "per_layer_input_gate.weight", INPUT, HIDDEN);
    model_writer_add_of_layer(writer, layer, "per_layer_projection.weight", HIDDEN, INPUT);
    add_norm(writer, layer, "post_per_layer_input_norm.weight");
    snprintf(name, sizeof name, "model.layers.%u.layer_scalar", layer);
    model_writer_add(writer, name, 1, 0, 0.9f, 0.05f);
}

static void add_all(struct model_writer *writer)
{
    model_writer_add(writer, "model.embed_tokens.weight", VOCABULARY, HIDDEN, 0, 0.5f);
    model_writer_add(writer, "model.embed_tokens_per_layer.weight", VOCABULARY, LAYERS * INPUT, 0,
                     1);
    model_writer_add(writer, "model.per_layer_model_projection.weight", LAYERS * INPUT, HIDDEN, 0,
                     1);
    model_writer_add(writer, "model.per_layer_projection_norm.weight", INPUT, 0, 1, 0.2f);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        add_layer(writer, layer);
    model_writer_add(writer, "model.norm.weight", HIDDEN, 0, 1, 0.2f);
    model_writer_add(writer, "lm_head.weight", VOCABULARY, HIDDEN, 0, 0.15f);
}

static void add_experts(struct model_writer *writer, uint32_t layer)
{
    static const char *const NORMS[] = {"post_feedforward_layernorm_1.weight",
                                        "pre_feedforward_layernorm_2.weight",
                                        "post_feedforward_layernorm_2.weight"};
    char name[64];
    for (int i = 0; i < 3; i++)
        add_norm(writer, layer, NORMS[i]);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        snprintf(name, sizeof name, "experts.%u", e);
        model_writer_add_mlp(writer, layer, name, HIDDEN, EXPERT_FFN);
    }
    model_writer_add_of_layer(writer, layer, "router.proj.weight", EXPERTS, HIDDEN);
    snprintf(name, sizeof name, "model.layers.%u.router.scale", layer);
    model_writer_add(writer, name, HIDDEN, 0, 4, 1);
    snprintf(name, sizeof name, "model.layers.%u.router.per_expert_scale", layer);
    model_writer_add(writer, name, EXPERTS, 0, 1, 0.2f);
}

static void add_all_with_experts(struct model_writer *writer)
{
    add_all(writer);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        add_experts(writer, layer);
}

const char *unequal_model_make(void)
{
    return model_writer_make(CONFIG, add_all);
}

const char *unequal_model_make_with_experts(void)
{
    return model_writer_make(CONFIG_WITH_EXPERTS, add_all_with_experts);
}
