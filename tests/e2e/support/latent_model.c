#include "latent_model.h"

#include "random_model.h"

#include <stdint.h>
#include <stdio.h>

enum {
    HIDDEN = 64,
    VOCABULARY = 2048,
    LAYERS = 3,
    HEADS = 4,
    LATENT = 48,
    ROPE = 16,
    NOPE = 24,
    V_DIM = 20,
    Q_RANK = 40,
    FFN = 96,
    EXPERTS = 8,
    EXPERT = 32,
    NAME_BYTES = 96,
};

static const char CONFIG[] =
    "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\", "
    "\"hidden_size\": 64, \"vocab_size\": 2048, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 4, \"kv_lora_rank\": 48, \"qk_rope_head_dim\": 16, "
    "\"qk_nope_head_dim\": 24, \"v_head_dim\": 20, \"q_lora_rank\": 40, "
    "\"intermediate_size\": 96, \"n_routed_experts\": 8, \"moe_intermediate_size\": 32, "
    "\"n_shared_experts\": 1, \"num_experts_per_tok\": 3, \"n_group\": 4, \"topk_group\": 2, "
    "\"routed_scaling_factor\": 1.5, \"first_k_dense_replace\": 1, \"norm_topk_prob\": true, "
    "\"num_nextn_predict_layers\": 1, \"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-06, "
    "\"hidden_act\": \"silu\", "
    "\"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
    "\"original_max_position_embeddings\": 512, \"mscale\": 1.0, \"mscale_all_dim\": 1.0}, "
    "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"bos_token_id\": 2046, "
    "\"eos_token_id\": 2047}";

static void add_mlp(struct random_model *model, uint32_t layer, const char *prefix, uint32_t ffn)
{
    static const char *const NAMES[] = {"gate_proj", "up_proj", "down_proj"};
    char name[NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", prefix, NAMES[i]);
        random_model_add_layer(model, layer, name, i == 2 ? HIDDEN : ffn, i == 2 ? ffn : HIDDEN);
    }
}

static void add_layer(struct random_model *model, uint32_t layer)
{
    char prefix[NAME_BYTES];
    random_model_add_layer(model, layer, "input_layernorm.weight", HIDDEN, 0);
    random_model_add_layer(model, layer, "post_attention_layernorm.weight", HIDDEN, 0);
    random_model_add_layer(model, layer, "self_attn.q_a_proj.weight", Q_RANK, HIDDEN);
    random_model_add_layer(model, layer, "self_attn.q_a_layernorm.weight", Q_RANK, 0);
    random_model_add_layer(model, layer, "self_attn.q_b_proj.weight", HEADS * (NOPE + ROPE),
                           Q_RANK);
    random_model_add_layer(model, layer, "self_attn.kv_a_proj_with_mqa.weight", LATENT + ROPE,
                           HIDDEN);
    random_model_add_layer(model, layer, "self_attn.kv_a_layernorm.weight", LATENT, 0);
    random_model_add_layer(model, layer, "self_attn.kv_b_proj.weight", HEADS * (NOPE + V_DIM),
                           LATENT);
    random_model_add_layer(model, layer, "self_attn.o_proj.weight", HIDDEN, HEADS * V_DIM);
    if (layer == 0) {
        add_mlp(model, layer, "mlp", FFN);
        return;
    }
    random_model_add_layer(model, layer, "mlp.gate.weight", EXPERTS, HIDDEN);
    random_model_add_layer(model, layer, "mlp.gate.e_score_correction_bias", EXPERTS, 0);
    add_mlp(model, layer, "mlp.shared_experts", EXPERT);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        snprintf(prefix, sizeof prefix, "mlp.experts.%u", e);
        add_mlp(model, layer, prefix, EXPERT);
    }
}

const char *latent_model_make(void)
{
    struct random_model *model = random_model_create(7);
    random_model_add(model, "model.embed_tokens.weight", VOCABULARY, HIDDEN, 0, 0.5f);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        add_layer(model, layer);
    random_model_add_layer(model, LAYERS, "eh_proj.weight", HIDDEN, 2 * HIDDEN); /* is skipped */
    random_model_add(model, "model.norm.weight", HIDDEN, 0, 1, 0.2f);
    random_model_add(model, "lm_head.weight", VOCABULARY, HIDDEN, 0, 0.15f);
    return random_model_write(model, CONFIG);
}
