#include "latent_model.h"

#include "base/random.h"
#include "command.h"
#include "model_copy.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    FILE_BYTES_MAX = 1 << 24,
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

/* The tensors so far. */
struct writing {
    json_t *header;
    uint16_t *numbers; /* BF16 */
    size_t n, n_max;
    struct random random;
};

/* Twelve uniform numbers less six: nearly normal. */
static float normal(struct random *random)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (float)random_below(random, 1u << 16) / 65536.0f;
    return sum;
}

/* columns 0: a vector around middle. */
static void add(struct writing *writing, const char *name, uint32_t rows, uint32_t columns,
                float middle, float spread)
{
    const size_t n = (size_t)rows * (columns ? columns : 1);
    const json_int_t from = (json_int_t)(2 * writing->n);
    cr_assert_leq(writing->n + n, writing->n_max);
    for (size_t i = 0; i < n; i++) {
        const float value = middle + spread * normal(&writing->random);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        writing->numbers[writing->n++] = (uint16_t)(bits >> 16);
    }
    json_t *shape = columns ? json_pack("[i, i]", rows, columns) : json_pack("[i]", rows);
    json_object_set_new(writing->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                  "data_offsets", from, (json_int_t)(2 * writing->n)));
}

static void add_of_layer(struct writing *writing, uint32_t layer, const char *name, uint32_t rows,
                         uint32_t columns)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "model.layers.%u.%s", layer, name);
    if (columns)
        add(writing, whole, rows, columns, 0, 1.2f / sqrtf((float)columns));
    else
        add(writing, whole, rows, 0, strstr(name, "norm") ? 1 : 0, 0.2f);
}

static void add_mlp(struct writing *writing, uint32_t layer, const char *prefix, uint32_t ffn)
{
    static const char *const NAMES[] = {"gate_proj", "up_proj", "down_proj"};
    char name[NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", prefix, NAMES[i]);
        add_of_layer(writing, layer, name, i == 2 ? HIDDEN : ffn, i == 2 ? ffn : HIDDEN);
    }
}

static void add_layer(struct writing *writing, uint32_t layer)
{
    char prefix[NAME_BYTES];
    add_of_layer(writing, layer, "input_layernorm.weight", HIDDEN, 0);
    add_of_layer(writing, layer, "post_attention_layernorm.weight", HIDDEN, 0);
    add_of_layer(writing, layer, "self_attn.q_a_proj.weight", Q_RANK, HIDDEN);
    add_of_layer(writing, layer, "self_attn.q_a_layernorm.weight", Q_RANK, 0);
    add_of_layer(writing, layer, "self_attn.q_b_proj.weight", HEADS * (NOPE + ROPE), Q_RANK);
    add_of_layer(writing, layer, "self_attn.kv_a_proj_with_mqa.weight", LATENT + ROPE, HIDDEN);
    add_of_layer(writing, layer, "self_attn.kv_a_layernorm.weight", LATENT, 0);
    add_of_layer(writing, layer, "self_attn.kv_b_proj.weight", HEADS * (NOPE + V_DIM), LATENT);
    add_of_layer(writing, layer, "self_attn.o_proj.weight", HIDDEN, HEADS * V_DIM);
    if (layer == 0) {
        add_mlp(writing, layer, "mlp", FFN);
        return;
    }
    add_of_layer(writing, layer, "mlp.gate.weight", EXPERTS, HIDDEN);
    add_of_layer(writing, layer, "mlp.gate.e_score_correction_bias", EXPERTS, 0);
    add_mlp(writing, layer, "mlp.shared_experts", EXPERT);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        snprintf(prefix, sizeof prefix, "mlp.experts.%u", e);
        add_mlp(writing, layer, prefix, EXPERT);
    }
}

static void write_weights(const char *path)
{
    struct writing writing = {.header = json_object(), .n_max = 1u << 20};
    writing.numbers = malloc(writing.n_max * sizeof *writing.numbers);
    cr_assert(writing.header && writing.numbers);
    random_init(&writing.random, 7);
    add(&writing, "model.embed_tokens.weight", VOCABULARY, HIDDEN, 0, 0.5f);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        add_layer(&writing, layer);
    add_of_layer(&writing, LAYERS, "eh_proj.weight", HIDDEN, 2 * HIDDEN); /* is skipped */
    add(&writing, "model.norm.weight", HIDDEN, 0, 1, 0.2f);
    add(&writing, "lm_head.weight", VOCABULARY, HIDDEN, 0, 0.15f);
    char *header = json_dumps(writing.header, JSON_COMPACT);
    const uint64_t header_bytes = strlen(header);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(&header_bytes, sizeof header_bytes, 1, file), 1);
    cr_assert_eq(fwrite(header, 1, header_bytes, file), header_bytes);
    cr_assert_eq(fwrite(writing.numbers, sizeof *writing.numbers, writing.n, file), writing.n);
    cr_assert_eq(fclose(file), 0);
    free(header);
    free(writing.numbers);
    json_decref(writing.header);
}

const char *latent_model_make(void)
{
    static char folder[256];
    snprintf(folder, sizeof folder, "%s", in_folder("model"));
    cr_assert_eq(mkdir(folder, 0700), 0);
    write_file(in_folder("model/config.json"), CONFIG, sizeof CONFIG - 1);
    write_weights(in_folder("model/model.safetensors"));
    model_copy_file("tokenizer.json", FILE_BYTES_MAX);
    model_copy_file("tokenizer_config.json", FILE_BYTES_MAX);
    return folder;
}
