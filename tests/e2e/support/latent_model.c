#include "latent_model.h"

#include "model_writer.h"

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

static void add_layer(struct model_writer *writer, uint32_t layer)
{
    char prefix[32];
    model_writer_add_of_layer(writer, layer, "input_layernorm.weight", HIDDEN, 0);
    model_writer_add_of_layer(writer, layer, "post_attention_layernorm.weight", HIDDEN, 0);
    model_writer_add_of_layer(writer, layer, "self_attn.q_a_proj.weight", Q_RANK, HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.q_a_layernorm.weight", Q_RANK, 0);
    model_writer_add_of_layer(writer, layer, "self_attn.q_b_proj.weight", HEADS * (NOPE + ROPE),
                              Q_RANK);
    model_writer_add_of_layer(writer, layer, "self_attn.kv_a_proj_with_mqa.weight", LATENT + ROPE,
                              HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.kv_a_layernorm.weight", LATENT, 0);
    model_writer_add_of_layer(writer, layer, "self_attn.kv_b_proj.weight", HEADS * (NOPE + V_DIM),
                              LATENT);
    model_writer_add_of_layer(writer, layer, "self_attn.o_proj.weight", HIDDEN, HEADS * V_DIM);
    if (layer == 0) {
        model_writer_add_mlp(writer, layer, "mlp", HIDDEN, FFN);
        return;
    }
    model_writer_add_of_layer(writer, layer, "mlp.gate.weight", EXPERTS, HIDDEN);
    model_writer_add_of_layer(writer, layer, "mlp.gate.e_score_correction_bias", EXPERTS, 0);
    model_writer_add_mlp(writer, layer, "mlp.shared_experts", HIDDEN, EXPERT);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        snprintf(prefix, sizeof prefix, "mlp.experts.%u", e);
        model_writer_add_mlp(writer, layer, prefix, HIDDEN, EXPERT);
    }
}

static void add_all(struct model_writer *writer)
{
    model_writer_add(writer, "model.embed_tokens.weight", VOCABULARY, HIDDEN, 0, 0.5f);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        add_layer(writer, layer);
    /* is skipped */
    model_writer_add_of_layer(writer, LAYERS, "eh_proj.weight", HIDDEN, 2 * HIDDEN);
    model_writer_add(writer, "model.norm.weight", HIDDEN, 0, 1, 0.2f);
    model_writer_add(writer, "lm_head.weight", VOCABULARY, HIDDEN, 0, 0.15f);
}

const char *latent_model_make(void)
{
    return model_writer_make(CONFIG, add_all);
}
