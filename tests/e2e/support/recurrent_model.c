#include "recurrent_model.h"

#include "model_writer.h"

enum {
    HIDDEN = 64,
    VOCABULARY = 2048,
    LAYERS = 6,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 32,
    STATE_HEADS = 4,
    KEYS = 2 * 32,
    VALUES = STATE_HEADS * 32,
    FFN = 96,
};

static const char CONFIG[] =
    "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"model_type\": \"qwen3_5_text\", "
    "\"hidden_size\": 64, \"vocab_size\": 2048, \"num_hidden_layers\": 6, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, "
    "\"intermediate_size\": 96, \"full_attention_interval\": 3, \"linear_conv_kernel_dim\": 4, "
    "\"linear_key_head_dim\": 32, \"linear_value_head_dim\": 32, \"linear_num_key_heads\": 2, "
    "\"linear_num_value_heads\": 4, \"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-06, "
    "\"hidden_act\": \"silu\", \"rope_parameters\": {\"rope_type\": \"default\", "
    "\"rope_theta\": 10000, \"partial_rotary_factor\": 0.25}, \"tie_word_embeddings\": false, "
    "\"dtype\": \"bfloat16\", \"bos_token_id\": 2046, \"eos_token_id\": 2047}";

static void add_state(struct model_writer *writer, uint32_t layer)
{
    model_writer_add_of_layer(writer, layer, "linear_attn.in_proj_qkv.weight", 2 * KEYS + VALUES,
                              HIDDEN);
    model_writer_add_of_layer(writer, layer, "linear_attn.in_proj_z.weight", VALUES, HIDDEN);
    model_writer_add_of_layer(writer, layer, "linear_attn.in_proj_b.weight", STATE_HEADS, HIDDEN);
    model_writer_add_of_layer(writer, layer, "linear_attn.in_proj_a.weight", STATE_HEADS, HIDDEN);
    model_writer_add_conv(writer, layer, "linear_attn.conv1d.weight", 2 * KEYS + VALUES, 4);
    model_writer_add_of_layer(writer, layer, "linear_attn.A_log", STATE_HEADS, 0);
    model_writer_add_of_layer(writer, layer, "linear_attn.dt_bias", STATE_HEADS, 0);
    model_writer_add_of_layer(writer, layer, "linear_attn.norm.weight", VALUES / STATE_HEADS, 0);
    model_writer_add_of_layer(writer, layer, "linear_attn.out_proj.weight", HIDDEN, VALUES);
}

static void add_attention(struct model_writer *writer, uint32_t layer)
{
    model_writer_add_of_layer(writer, layer, "self_attn.q_proj.weight", 2 * HEADS * HEAD_DIM,
                              HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.k_proj.weight", KV_HEADS * HEAD_DIM,
                              HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.v_proj.weight", KV_HEADS * HEAD_DIM,
                              HIDDEN);
    model_writer_add_of_layer(writer, layer, "self_attn.q_norm.weight", HEAD_DIM, 0);
    model_writer_add_of_layer(writer, layer, "self_attn.k_norm.weight", HEAD_DIM, 0);
    model_writer_add_of_layer(writer, layer, "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM);
}

static void add_all(struct model_writer *writer)
{
    model_writer_add(writer, "model.embed_tokens.weight", VOCABULARY, HIDDEN, 0, 0.5f);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        model_writer_add_of_layer(writer, layer, "input_layernorm.weight", HIDDEN, 0);
        model_writer_add_of_layer(writer, layer, "post_attention_layernorm.weight", HIDDEN, 0);
        if ((layer + 1) % 3 == 0)
            add_attention(writer, layer);
        else
            add_state(writer, layer);
        model_writer_add_mlp(writer, layer, "mlp", HIDDEN, FFN);
    }
    model_writer_add(writer, "model.norm.weight", HIDDEN, 0, 0, 0.2f);
    model_writer_add(writer, "lm_head.weight", VOCABULARY, HIDDEN, 0, 0.15f);
}

const char *recurrent_model_make(void)
{
    return model_writer_make(CONFIG, add_all);
}
