/* model_load: a broken or foreign folder is refused with the right status and a sentence that names
 * what is wrong; what is merely unusual loads. */
#include "model/weights/weights.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SINGLE  GOLDEN_MODELS "/llama_t4"        /* BF16, tied, hidden 32, 2 layers, ffn 48 */
#define SHARDED GOLDEN_MODELS "/llama_t4_llama3" /* untied, three shards */
#define QWEN2   GOLDEN_MODELS "/qwen2_t5_layer_types"
#define MISTRAL GOLDEN_MODELS "/mistral_t4_window"
#define QWEN3   GOLDEN_MODELS "/qwen3_t4"
#define BESIDE                                                                                     \
    GOLDEN_MODELS "/gemma4_t5_moe" /* experts beside the MLP: joined, 8 of 24, hidden 16 */

#define SHARD_1 "model-00001-of-00003.safetensors"
#define SHARD_2 "model-00002-of-00003.safetensors"

#define NO_LIMIT "1000000000000000019884624838656" /* as Transformers writes int(1e30) */

struct bad_folder {
    const char *original;
    enum broken_what what;
    const char *argument;
    enum status status;
    const char *word; /* in the sentence */
};

static void check(const struct bad_folder *bad)
{
    struct broken_folder folder;
    struct error error = {""};
    struct model *model = NULL;
    broken_folder_make(&folder, bad->original, bad->what, bad->argument);
    enum status status = model_load(folder.path, NULL, &error, &model);
    cr_expect_eq(status, bad->status, "%s: %s, expected %s (%s)", bad->argument,
                 status_name(status), status_name(bad->status), error.text);
    cr_expect(strstr(error.text, bad->word), "%s: no \"%s\" in \"%s\"", bad->argument, bad->word,
              error.text);
    model_destroy(status == STATUS_OK ? model : NULL);
    broken_folder_remove(&folder);
}

#define CHECK_ALL(cases, n_expected)                                                               \
    do {                                                                                           \
        size_t n_cases = sizeof(cases) / sizeof *(cases);                                          \
        cr_assert_eq(n_cases, n_expected, "%zu cases", n_cases);                                   \
        for (size_t c = 0; c < n_cases; c++)                                                       \
            check(&(cases)[c]);                                                                    \
    } while (0)

Test(bad_folder, config_is_malformed)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, FILE_REMOVE, "config.json", STATUS_NOT_FOUND, "config.json"},
        {SINGLE, FILE_TEXT, "config.json=", STATUS_CORRUPT, "config.json"},
        {SINGLE, FILE_TEXT, "config.json={\"a\": 1", STATUS_CORRUPT,
         "config.json is not JSON: line 1"},
        {SINGLE, FILE_TEXT, "config.json=[1]", STATUS_CORRUPT, "expected an object"},
        {SINGLE, FILE_TEXT, "config.json={\"a\": 1, \"a\": 2}", STATUS_CORRUPT, "duplicate"},
        {SINGLE, FILE_TEXT, "config.json={\"a\": \"\xff\"}", STATUS_CORRUPT, "byte 0xff"},
        {SINGLE, FILE_TEXT, "config.json={\"a\": 1e999}", STATUS_CORRUPT, "overflow"},
        {SINGLE, FILE_TEXT, "config.json={\"a\": NaN,}", STATUS_CORRUPT,
         "config.json is not JSON: line 1"},
        {SINGLE, CONFIG_SET, "{\"rms_norm_eps\": \"-Infinity\"}", STATUS_CORRUPT,
         "config.json: rms_norm_eps is NaN or Infinity, expected a number"},
        {SINGLE, FILE_TEXT, "config.json={}", STATUS_CORRUPT, "architectures is missing"},
        {SINGLE, FILE_FIFO, "config.json", STATUS_CORRUPT, "not a regular file"},
        {SINGLE, FILE_LINK, "config.json=/etc/hostname", STATUS_CORRUPT, "config.json is a link"},
        {SINGLE, FILE_LINK, "config.json=~/nowhere", STATUS_NOT_FOUND, "config.json"},
        {SINGLE, FILE_TEXT, "generation_config.json={\"num_beams\": -4}", STATUS_CORRUPT,
         "generation_config.json: num_beams is -4, expected 1 .."},
        {SINGLE, CONFIG_SET, "{\"suppress_tokens\": [3, 96]}", STATUS_CORRUPT,
         "config.json: suppress_tokens: element 1 is not an id below vocab_size 96"},
        {SINGLE, FILE_TEXT, "generation_config.json={\"suppress_tokens\": [1.5]}", STATUS_CORRUPT,
         "generation_config.json: suppress_tokens: element 0 is not an id below vocab_size 96"},
        {SINGLE, FILE_TEXT, "generation_config.json={\"suppress_tokens\": 5}", STATUS_CORRUPT,
         "generation_config.json: suppress_tokens is no list of token ids"},
        {SINGLE, CONFIG_SET, "{\"begin_suppress_tokens\": [3]}", STATUS_UNSUPPORTED,
         "config.json: begin_suppress_tokens is [3]"},
        {SINGLE, FILE_TEXT, "generation_config.json={\"eos_token_id\": [1, 96]}", STATUS_CORRUPT,
         "generation_config.json: eos_token_id"},
        {SINGLE, FILE_TEXT, "generation_config.json=", STATUS_CORRUPT, "generation_config.json"},
    };
    CHECK_ALL(CASES, 20);
}

Test(bad_folder, a_number_of_the_config_is_out_of_range)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, CONFIG_REMOVE, "hidden_size", STATUS_CORRUPT, "hidden_size is missing"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": null}", STATUS_CORRUPT, "hidden_size is missing"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": 0}", STATUS_CORRUPT, "hidden_size is 0"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": -32}", STATUS_CORRUPT, "hidden_size is -32"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": 32.5}", STATUS_CORRUPT,
         "hidden_size is 32.5, expected an integer"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": 1e30}", STATUS_CORRUPT, "hidden_size is 1e+30"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": \"32\"}", STATUS_CORRUPT,
         "hidden_size is a string"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": 34}", STATUS_CORRUPT, "hidden_size is 34"},
        {SINGLE, CONFIG_REMOVE, "num_hidden_layers", STATUS_CORRUPT, "num_hidden_layers"},
        {SINGLE, CONFIG_SET, "{\"num_hidden_layers\": 4294967298}", STATUS_CORRUPT,
         "num_hidden_layers is 4294967298"},
        {SINGLE, CONFIG_REMOVE, "num_attention_heads", STATUS_CORRUPT, "num_attention_heads"},
        {SINGLE, CONFIG_SET, "{\"num_attention_heads\": 1000000}", STATUS_CORRUPT,
         "num_attention_heads"},
        {SINGLE, CONFIG_SET, "{\"num_key_value_heads\": 3}", STATUS_CORRUPT, "num_key_value_heads"},
        {MISTRAL, CONFIG_REMOVE, "num_key_value_heads", STATUS_CORRUPT, "num_key_value_heads"},
        {SINGLE, CONFIG_SET, "{\"head_dim\": 12}", STATUS_UNSUPPORTED, "head_dim is 12"},
        {SINGLE, CONFIG_SET, "{\"head_dim\": 520}", STATUS_UNSUPPORTED, "head_dim is 520"},
        {SINGLE, CONFIG_REMOVE, "intermediate_size", STATUS_CORRUPT, "intermediate_size"},
        {SINGLE, CONFIG_SET, "{\"intermediate_size\": 9223372036854775807}", STATUS_CORRUPT,
         "intermediate_size"},
        {SINGLE, CONFIG_REMOVE, "vocab_size", STATUS_CORRUPT, "vocab_size"},
        {SINGLE, CONFIG_SET, "{\"vocab_size\": 4294967295}", STATUS_CORRUPT, "vocab_size"},
        {SINGLE, CONFIG_SET, "{\"max_position_embeddings\": 1e30}", STATUS_CORRUPT,
         "max_position_embeddings is 1e+30"},
        {SINGLE, CONFIG_SET, "{\"rms_norm_eps\": 0}", STATUS_CORRUPT, "rms_norm_eps"},
        {SINGLE, CONFIG_SET, "{\"rope_theta\": -1}", STATUS_CORRUPT, "rope_theta"},
        {SINGLE, CONFIG_SET, "{\"tie_word_embeddings\": 1}", STATUS_CORRUPT, "tie_word_embeddings"},
        {SINGLE, CONFIG_SET, "{\"eos_token_id\": 96}", STATUS_CORRUPT, "eos_token_id"},
        {SINGLE, CONFIG_SET, "{\"eos_token_id\": [2, 2.5]}", STATUS_CORRUPT, "eos_token_id"},
    };
    CHECK_ALL(CASES, 26);
}

Test(bad_folder, the_config_asks_for_what_is_not_computed_here)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, CONFIG_SET, "{\"architectures\": [\"LongT5ForConditionalGeneration\"]}",
         STATUS_UNSUPPORTED, "LongT5ForConditionalGeneration"},
        {SINGLE, CONFIG_SET, "{\"architectures\": [\"LlamaForSequenceClassification\"]}",
         STATUS_UNSUPPORTED, "LlamaForSequenceClassification"},
        {SINGLE, CONFIG_SET, "{\"architectures\": \"LlamaForCausalLM\"}", STATUS_CORRUPT,
         "architectures"},
        {SINGLE, CONFIG_SET, "{\"model_type\": \"mistral\"}", STATUS_CORRUPT, "model_type"},
        {SINGLE, CONFIG_SET, "{\"hidden_act\": \"quick_gelu\"}", STATUS_UNSUPPORTED, "hidden_act"},
        {SINGLE, CONFIG_SET, "{\"num_experts\": 2}", STATUS_UNSUPPORTED, "num_experts is 2"},
        {SINGLE, CONFIG_SET, "{\"quantization_config\": {\"bits\": 4}}", STATUS_CORRUPT,
         "quantization_config: quant_method"},
        {SINGLE, CONFIG_SET, "{\"partial_rotary_factor\": 0.5}", STATUS_UNSUPPORTED,
         "partial_rotary_factor is 0.5"},
        {SINGLE, CONFIG_SET, "{\"logit_scale\": 0.0625}", STATUS_UNSUPPORTED, "logit_scale"},
        {SINGLE, CONFIG_SET, "{\"final_logit_softcapping\": 30.0}", STATUS_UNSUPPORTED,
         "final_logit_softcapping"},
        {SINGLE, CONFIG_SET, "{\"attn_logit_softcapping\": 50}", STATUS_UNSUPPORTED,
         "attn_logit_softcapping"},
        {SINGLE, CONFIG_SET, "{\"residual_multiplier\": 0.22}", STATUS_UNSUPPORTED,
         "residual_multiplier"},
        {SINGLE, CONFIG_SET, "{\"num_local_experts\": 8}", STATUS_UNSUPPORTED, "num_local_experts"},
        {SINGLE, CONFIG_SET,
         "{\"rope_scaling\": {\"factor\": 2}, \"rope_parameters\": {\"rope_type\": \"linear\", "
         "\"factor\": 2}}",
         STATUS_CORRUPT, "rope_scaling and rope_parameters differ: default, linear"},
        {SINGLE, CONFIG_SET, "{\"quantization\": {\"bits\": 4}}", STATUS_UNSUPPORTED,
         "config.json: quantization is {\"bits\":4}, which is not supported: MLX wrote it"},
        {SINGLE, FILE_TEXT, "generation_config.json={\"cache_implementation\": \"quantized\"}",
         STATUS_UNSUPPORTED, "generation_config.json: cache_implementation is \"quantized\""},
        {QWEN2, CONFIG_SET, "{\"attention_bias\": true}", STATUS_UNSUPPORTED, "attention_bias"},
        {QWEN3, CONFIG_SET, "{\"mlp_bias\": true}", STATUS_UNSUPPORTED, "mlp_bias"},
        {QWEN2, CONFIG_SET, "{\"layer_types\": [\"full_attention\"]}", STATUS_CORRUPT,
         "layer_types"},
        {QWEN2, CONFIG_SET, "{\"use_sliding_window\": false}", STATUS_CORRUPT, "layer_types[0]"},
        {QWEN2, CONFIG_SET,
         "{\"layer_types\": [\"linear_attention\", \"full_attention\", \"full_attention\"]}",
         STATUS_UNSUPPORTED, "linear_attention"},
        {MISTRAL, CONFIG_SET, "{\"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
         STATUS_UNSUPPORTED, "layer_types[0]"},
        {MISTRAL, CONFIG_SET, "{\"sliding_window\": 0}", STATUS_CORRUPT, "sliding_window is 0"},
    };
    CHECK_ALL(CASES, 23);
}

Test(bad_folder, the_rotary_embedding_is_not_ours)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, CONFIG_SET, "{\"rope_scaling\": 2}", STATUS_CORRUPT, "rope_scaling"},
        {SINGLE, CONFIG_SET, "{\"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2}}",
         STATUS_CORRUPT,
         "rope_scaling.short_factor is not a list of 4 numbers, one for two rotated elements"},
        {SINGLE, CONFIG_SET, "{\"rope_scaling\": {\"rope_type\": \"linear\"}}", STATUS_CORRUPT,
         "factor is missing"},
        {SINGLE, CONFIG_SET, "{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}}",
         STATUS_CORRUPT, "factor is 0"},
        {SINGLE, CONFIG_SET,
         "{\"rope_scaling\": {\"rope_type\": \"linear\", \"type\": \"yarn\", \"factor\": 2}}",
         STATUS_CORRUPT, "rope_type"},
        {SINGLE, CONFIG_SET, "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
         STATUS_CORRUPT, "low_freq_factor is missing"},
        {SHARDED, CONFIG_SET, "{\"rope_scaling\": {\"high_freq_factor\": 1}}", STATUS_CORRUPT,
         "high_freq_factor"},
        {SINGLE, CONFIG_SET, "{\"rope_scaling\": {\"mrope_section\": [2, 1, 1]}}",
         STATUS_UNSUPPORTED, "mrope_section"},
        {QWEN2, CONFIG_SET, "{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
         STATUS_UNSUPPORTED, "partial_rotary_factor"},
        {QWEN2, CONFIG_SET, "{\"rope_theta\": 5}", STATUS_CORRUPT, "rope_theta is 5"},
        {QWEN2, CONFIG_SET, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
         STATUS_CORRUPT, "rope_scaling and rope_parameters"},
        {QWEN2, CONFIG_SET,
         "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}",
         STATUS_UNSUPPORTED, "full_attention"},
    };
    CHECK_ALL(CASES, 12);
}

/* The data of SINGLE has the tensors in the order of their names; the norm is the last. */
Test(bad_folder, the_safetensors_file_lies)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, FILE_REMOVE, "model.safetensors", STATUS_NOT_FOUND,
         "model.safetensors.index.json"},
        {SINGLE, FILE_CUT, "model.safetensors=0", STATUS_CORRUPT, "header's length"},
        {SINGLE, FILE_CUT, "model.safetensors=7", STATUS_CORRUPT, "header's length"},
        {SINGLE, FILE_CUT, "model.safetensors=8", STATUS_CORRUPT, "truncated"},
        {SINGLE, FILE_CUT, "model.safetensors=300", STATUS_CORRUPT, "truncated"},
        {SINGLE, FILE_CUT, "model.safetensors=-1", STATUS_CORRUPT, "truncated"},
        {SINGLE, FILE_CUT, "model.safetensors=-30000", STATUS_CORRUPT, "truncated"},
        {SINGLE, FILE_APPEND, "model.safetensors=x", STATUS_CORRUPT, "1 bytes are left over"},
        {SINGLE, HEADER_LENGTH, "0", STATUS_CORRUPT, "header does not begin"},
        {SINGLE, HEADER_LENGTH, "1", STATUS_CORRUPT, "model.safetensors is not JSON: line 1"},
        {SINGLE, HEADER_LENGTH, "100000", STATUS_CORRUPT, "header length is 100000"},
        {SINGLE, HEADER_LENGTH, "0xffffffffffffffff", STATUS_CORRUPT, "header length"},
        {SINGLE, HEADER_LENGTH, "0x8000000000000000", STATUS_CORRUPT, "header length"},
        {SINGLE, HEADER_TEXT, "[]", STATUS_CORRUPT, "does not begin with {"},
        {SINGLE, HEADER_TEXT, " {}", STATUS_CORRUPT, "does not begin with {"},
        {SINGLE, HEADER_TEXT, "{}", STATUS_CORRUPT, "left over"},
        {SINGLE, HEADER_TEXT, "{\"a\": 1, \"a\": 2}", STATUS_CORRUPT, "duplicate"},
        {SINGLE, HEADER_TEXT, "{\"a\": 7}", STATUS_CORRUPT, "tensor a"},
        {SINGLE, HEADER_TEXT, "{\"a\": {}}", STATUS_CORRUPT, "dtype"},
        {SINGLE, HEADER_SET, "{\"__metadata__\": {\"format\": 1}}", STATUS_CORRUPT, "__metadata__"},
        {SINGLE, HEADER_SET, "{\"__metadata__\": null}", STATUS_CORRUPT, "__metadata__"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"dtype\": \"F4\"}}", STATUS_UNSUPPORTED,
         "dtype \"F4\""},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"dtype\": 16}}", STATUS_CORRUPT, "dtype"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"dtype\": \"F32\"}}", STATUS_CORRUPT,
         "model.norm.weight"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"shape\": [33]}}", STATUS_CORRUPT,
         "model.norm.weight"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"shape\": [-32]}}", STATUS_CORRUPT,
         "shape"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"shape\": 32}}", STATUS_CORRUPT, "shape"},
        {SINGLE, HEADER_SET,
         "{\"model.norm.weight\": {\"shape\": [4294967296, 4294967296, 4294967296]}}",
         STATUS_CORRUPT, "overflows"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"shape\": [1,1,1,1,1,1,1,1,32]}}",
         STATUS_CORRUPT, "8 dimensions"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"data_offsets\": [0, 64]}}", STATUS_CORRUPT,
         "overlaps"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"data_offsets\": [64, 0]}}", STATUS_CORRUPT,
         "data_offsets"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"data_offsets\": [0]}}", STATUS_CORRUPT,
         "data_offsets"},
        {SINGLE, HEADER_SET,
         "{\"model.norm.weight\": {\"data_offsets\": [9223372036854775743, 9223372036854775807]}}",
         STATUS_CORRUPT, "truncated"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"strides\": [1]}}", STATUS_CORRUPT,
         "more than dtype"},
        {SINGLE, HEADER_REMOVE, "model.layers.1.mlp.up_proj.weight", STATUS_CORRUPT, "hole"},
        {SINGLE, FILE_LINK, "model.safetensors=/etc/hostname", STATUS_CORRUPT, "link out"},
        {SINGLE, FILE_FIFO, "model.safetensors", STATUS_CORRUPT, "not a regular file"},
    };
    CHECK_ALL(CASES, 37);
}

Test(bad_folder, the_tensors_are_not_the_models)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, CONFIG_SET, "{\"num_hidden_layers\": 3}", STATUS_CORRUPT,
         "model.layers.2.input_layernorm.weight is missing"},
        {SINGLE, CONFIG_SET, "{\"tie_word_embeddings\": false}", STATUS_CORRUPT,
         "lm_head.weight is missing, expected with shape [96, 32]"},
        {SINGLE, CONFIG_SET, "{\"attention_bias\": true}", STATUS_CORRUPT,
         "model.layers.0.self_attn.q_proj.bias is missing"},
        {SINGLE, CONFIG_SET, "{\"mlp_bias\": true}", STATUS_CORRUPT, "mlp.gate_proj.bias"},
        {SINGLE, CONFIG_SET, "{\"vocab_size\": 97}", STATUS_CORRUPT,
         "model.embed_tokens.weight has shape [96, 32], expected [97, 32]"},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": 64}", STATUS_CORRUPT, "expected [96, 64]"},
        {SINGLE, CONFIG_SET, "{\"num_key_value_heads\": 4}", STATUS_CORRUPT,
         "k_proj.weight has shape [16, 32], expected [32, 32]"},
        {SINGLE, CONFIG_SET, "{\"head_dim\": 16}", STATUS_CORRUPT, "q_proj.weight"},
        {SINGLE, CONFIG_SET, "{\"intermediate_size\": 40}", STATUS_CORRUPT, "mlp.gate_proj.weight"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"dtype\": \"I16\"}}", STATUS_UNSUPPORTED,
         "model.norm.weight has dtype I16"},
        {SINGLE, HEADER_SET, "{\"model.norm.weight\": {\"shape\": [32, 1]}}", STATUS_CORRUPT,
         "[32, 1], expected [32]"},
        {SINGLE, CONFIG_SET,
         "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"head_dim\": 8}",
         STATUS_CORRUPT, "q_norm.weight is missing"},
    };
    CHECK_ALL(CASES, 12);
}

/* They would make every answer token 0, or a plausible one. */
Test(bad_folder, a_weight_is_no_number)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, TENSOR_SET, "model.embed_tokens.weight=0=nan", STATUS_CORRUPT,
         "model.safetensors: tensor model.embed_tokens.weight is nan at [0, 0]"},
        {SINGLE, TENSOR_SET, "model.layers.1.self_attn.v_proj.weight=77=inf", STATUS_CORRUPT,
         "model.layers.1.self_attn.v_proj.weight is inf at [2, 13], weights must be finite"},
        {SINGLE, TENSOR_SET, "model.layers.0.mlp.down_proj.weight=1535=-inf", STATUS_CORRUPT,
         "mlp.down_proj.weight is -inf at [31, 47]"},
        {SINGLE, TENSOR_SET, "model.norm.weight=31=nan", STATUS_CORRUPT,
         "model.norm.weight is nan at [31]"},
        {DEMO_MODEL, TENSOR_SET, "model.embed_tokens.weight=262143=nan", STATUS_CORRUPT,
         "model.embed_tokens.weight is nan at [1023, 255]"},
    };
    CHECK_ALL(CASES, 5);
}

/* What no tensor of the architecture is made of may hold anything. */
Test(good_folder, a_number_that_is_none_is_no_weight)
{
    struct broken_folder folder;
    struct error error = {""};
    struct model *model;
    broken_folder_make(&folder, SINGLE, TENSOR_ADD, "{\"vision.weight\": \"F32\"}");
    broken_folder_edit(&folder, TENSOR_SET, "vision.weight=0=nan");
    cr_assert_eq(model_load(folder.path, NULL, &error, &model), STATUS_OK, "%s", error.text);
    model_destroy(model);
    broken_folder_remove(&folder);
}

Test(bad_folder, the_index_of_the_shards_lies)
{
    static const struct bad_folder CASES[] = {
        {SHARDED, FILE_TEXT, "model.safetensors.index.json={", STATUS_CORRUPT, "index.json"},
        {SHARDED, FILE_TEXT, "model.safetensors.index.json={}", STATUS_CORRUPT, "weight_map"},
        {SHARDED, FILE_TEXT, "model.safetensors.index.json={\"weight_map\": []}", STATUS_CORRUPT,
         "weight_map"},
        {SHARDED, FILE_TEXT, "model.safetensors.index.json={\"weight_map\": {}}", STATUS_CORRUPT,
         "model.embed_tokens.weight is missing"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": 3}", STATUS_CORRUPT, "lm_head.weight"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"../x.safetensors\"}", STATUS_CORRUPT,
         "../x.safetensors"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"/etc/x.safetensors\"}", STATUS_CORRUPT,
         "/etc/x.safetensors"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"sub/x.safetensors\"}", STATUS_CORRUPT,
         "sub/x.safetensors"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"..\"}", STATUS_CORRUPT, "\"..\""},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"\"}", STATUS_CORRUPT, "lm_head.weight"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"config.json\"}", STATUS_CORRUPT,
         "config.json"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"none.safetensors\"}", STATUS_NOT_FOUND,
         "none.safetensors"},
        {SHARDED, INDEX_SET, "{\"lm_head.weight\": \"" SHARD_2 "\"}", STATUS_CORRUPT,
         "lm_head.weight"},
        {SHARDED, INDEX_SET, "{\"model.extra\": \"" SHARD_2 "\"}", STATUS_CORRUPT, "model.extra"},
        {SHARDED, INDEX_REMOVE, "lm_head.weight", STATUS_CORRUPT,
         "lm_head.weight of " SHARD_1 " is not in weight_map"},
        {SHARDED, FILE_REMOVE, SHARD_2, STATUS_NOT_FOUND, SHARD_2},
        {SHARDED, FILE_CUT, SHARD_2 "=-2", STATUS_CORRUPT, SHARD_2},
        {SHARDED, FILE_LINK, SHARD_2 "=/etc/hostname", STATUS_CORRUPT, SHARD_2},
        {SHARDED, FILE_LINK, SHARD_2 "=~/" SHARD_1, STATUS_CORRUPT, SHARD_2},
        {SHARDED, FILE_REMOVE, "model.safetensors.index.json", STATUS_NOT_FOUND,
         "model.safetensors.index.json"},
    };
    CHECK_ALL(CASES, 20);
}

Test(bad_folder, there_is_no_folder)
{
    struct error error;
    struct model *model = NULL;
    cr_assert_eq(model_load("/nowhere", NULL, &error, &model), STATUS_NOT_FOUND);
    cr_assert(strstr(error.text, "/nowhere"), "%s", error.text);
    cr_assert_neq(model_load(SINGLE "/config.json", NULL, &error, &model), STATUS_OK);
    cr_assert_null(model);
    model_destroy(NULL);
}

/* ---- what must load ---- */

Test(good_folder, unusual_is_not_wrong)
{
    static const struct bad_folder CASES[] = {
        {SINGLE, NOTHING, "", STATUS_OK, ""},
        {SHARDED, NOTHING, "", STATUS_OK, ""},
        {SINGLE, CONFIG_SET, "{\"never_heard_of\": [1, 2]}", STATUS_OK, ""},
        {SINGLE, FILE_TEXT, "generation_config.json={\"max_length\": " NO_LIMIT "}", STATUS_OK, ""},
        {SINGLE, CONFIG_SET, "{\"hidden_size\": 32.0, \"eos_token_id\": [2.0]}", STATUS_OK, ""},
        {SINGLE, CONFIG_SET, "{\"quantization_config\": null, \"logit_scale\": 1.0}", STATUS_OK,
         ""},
        {SINGLE, CONFIG_SET, "{\"final_logit_softcapping\": false, \"num_experts\": 0}", STATUS_OK,
         ""},
        {SINGLE, CONFIG_SET, "{\"eos_token_id\": null, \"bos_token_id\": null}", STATUS_OK, ""},
        {SINGLE, CONFIG_SET, "{\"hidden_act\": \"swish\"}", STATUS_OK, ""},
        {SINGLE, CONFIG_REMOVE, "architectures", STATUS_OK, ""},
        {SINGLE, CONFIG_REMOVE, "model_type", STATUS_OK, ""},
        {SINGLE, CONFIG_REMOVE, "rope_theta", STATUS_OK, ""},
        {SINGLE, HEADER_REMOVE, "__metadata__", STATUS_OK, ""},
        {SINGLE, TENSOR_ADD, "{\"model.layers.0.self_attn.rotary_emb.inv_freq\": \"F32\"}",
         STATUS_OK, ""},
        {SINGLE, TENSOR_ADD, "{\"something.else\": \"F64\"}", STATUS_OK, ""},
        {SINGLE, FILE_LINK, "generation_config.json=~/config.json", STATUS_OK, ""},
        {SINGLE, FILE_TEXT, "generation_config.json={\"do_sample\": true, \"unknown\": 3}",
         STATUS_OK, ""},
        {MISTRAL, CONFIG_SET, "{\"layer_types\": [\"sliding_attention\", \"sliding_attention\"]}",
         STATUS_OK, ""},
        {QWEN3, CONFIG_SET, "{\"layer_types\": [\"full_attention\", \"full_attention\"]}",
         STATUS_OK, ""},
    };
    CHECK_ALL(CASES, 19);
}

/* CACHE/snapshots/REVISION/file -> ../../blobs/file, as the Hugging Face client stores a model. */
Test(good_folder, a_hugging_face_cache_is_followed_into_its_blobs)
{
    static const char *const FILES[] = {"config.json", "model.safetensors"};
    struct broken_folder cache, blobs;
    char path[512], target[512];
    struct error error;
    struct model *model = NULL;
    broken_folder_make(&blobs, SINGLE, NOTHING, "");
    broken_folder_make(&cache, SINGLE, NOTHING, "");
    snprintf(path, sizeof path, "%s/snapshots", cache.path);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/snapshots/0123abcd", cache.path);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(target, sizeof target, "%s/blobs", cache.path);
    cr_assert_eq(rename(blobs.path, target), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/snapshots/0123abcd/%s", cache.path, FILES[i]);
        snprintf(target, sizeof target, "../../blobs/%s", FILES[i]);
        cr_assert_eq(symlink(target, path), 0);
    }
    snprintf(path, sizeof path, "%s/snapshots/0123abcd", cache.path);
    cr_assert_eq(model_load(path, NULL, &error, &model), STATUS_OK, "%s", error.text);
    model_destroy(model);

    snprintf(path, sizeof path, "%s/snapshots/0123abcd/config.json", cache.path);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink("../../config.json", path), 0); /* of the cache, but not of its blobs */
    snprintf(path, sizeof path, "%s/snapshots/0123abcd", cache.path);
    cr_assert_eq(model_load(path, NULL, &error, &model), STATUS_CORRUPT);
    cr_assert(strstr(error.text, "config.json is a link"), "%s", error.text);
    broken_folder_remove(&cache);
}

/* Without the tensor, as it is called otherwise. */
Test(bad_folder, experts_beside_the_mlp_lack_a_tensor_or_have_another_shape)
{
    static const struct bad_folder CASES[] = {
        {BESIDE, TENSOR_STRIP, "model.layers.1.router.sc", STATUS_CORRUPT,
         "tensor model.layers.1.router.scale is missing, expected with shape [16]"},
        {BESIDE, TENSOR_STRIP, "model.layers.1.router.pe", STATUS_CORRUPT,
         "tensor model.layers.1.router.per_expert_scale is missing, expected with shape [8]"},
        {BESIDE, TENSOR_STRIP, "model.layers.3.router.pr", STATUS_CORRUPT,
         "tensor model.layers.3.router.proj.weight is missing, expected with shape [8, 16]"},
        {BESIDE, TENSOR_STRIP, "model.layers.0.post_feedforward_layernorm_1", STATUS_CORRUPT,
         "tensor model.layers.0.post_feedforward_layernorm_1.weight is missing"},
        {BESIDE, TENSOR_STRIP, "model.layers.0.pre_feedforward_layernorm_2", STATUS_CORRUPT,
         "tensor model.layers.0.pre_feedforward_layernorm_2.weight is missing"},
        {BESIDE, TENSOR_STRIP, "model.layers.0.post_feedforward_layernorm_2", STATUS_CORRUPT,
         "tensor model.layers.0.post_feedforward_layernorm_2.weight is missing"},
        {BESIDE, TENSOR_STRIP, "model.layers.2.mlp.gate", STATUS_CORRUPT,
         "tensor model.layers.2.mlp.gate_proj.weight is missing, expected with shape [40, 16]"},
        {BESIDE, TENSOR_STRIP, "model.layers.2.experts.d", STATUS_CORRUPT,
         "tensor model.layers.2.experts.down_proj is missing, expected with shape [8, 16, 24]"},
        {BESIDE, TENSOR_STRIP, "model.layers.2.experts.g", STATUS_CORRUPT,
         "tensor model.layers.2.experts.0.gate_proj.weight is missing, expected with shape [24, "
         "16]"},
        {BESIDE, HEADER_SET, "{\"model.layers.0.router.scale\": {\"shape\": [16, 1]}}",
         STATUS_CORRUPT, "model.layers.0.router.scale has shape [16, 1], expected [16]"},
        {BESIDE, HEADER_SET, "{\"model.layers.0.experts.down_proj\": {\"shape\": [8, 24, 16]}}",
         STATUS_CORRUPT, "experts.down_proj has shape [8, 24, 16], expected [8, 16, 24]"},
        {BESIDE, TENSOR_SET, "model.layers.3.router.per_expert_scale=7=nan", STATUS_CORRUPT,
         "model.layers.3.router.per_expert_scale"},
        {BESIDE, TENSOR_SET, "model.layers.3.experts.gate_up_proj=6143=inf", STATUS_CORRUPT,
         "model.layers.3.experts.gate_up_proj"},
    };
    CHECK_ALL(CASES, 13);
}
