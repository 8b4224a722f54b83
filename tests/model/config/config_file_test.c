/* model_config: the spellings of Transformers 4 and 5 mean the same, and defaults are Transformers'. */
#include "model/config/config_file.h"
#include "model/config/families.h"
#include "model/config/model_config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct model_config parse(const char *text, const char *generation)
{
    struct model_config config;
    struct error error = {""};
    enum status status = model_config_parse(text, strlen(text), generation,
                                            generation ? strlen(generation) : 0, &config, &error);
    cr_assert_eq(status, STATUS_OK, "%s", error.text);
    return config;
}

/* A config of the family with more members behind the common ones. */
static struct model_config parse_with(const char *architecture, const char *more)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"architectures\": [\"%s\"], \"hidden_size\": 64, \"num_hidden_layers\": 4, "
             "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 96, "
             "\"vocab_size\": 100, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-6%s%s}",
             architecture, *more ? ", " : "", more);
    return parse(text, NULL);
}

Test(model_config, sizes_and_defaults)
{
    struct model_config config = parse_with("LlamaForCausalLM", "");
    cr_assert_str_eq(model_family_name(config.family), "LlamaForCausalLM");
    cr_assert_eq(config.hidden, 64);
    cr_assert_eq(config.n_layers, 4);
    cr_assert_eq(config.n_heads, 4);
    cr_assert_eq(config.n_kv_heads, 2);
    cr_assert_eq(config.head_dim, 16);
    cr_assert_eq(config.ffn, 96);
    cr_assert_eq(config.vocabulary, 100);
    cr_assert_eq(config.context_tokens, 4096);
    cr_assert_eq(config.norm_eps, 1e-6f);
    cr_assert(!config.qkv_bias && !config.o_bias && !config.mlp_bias && !config.decoder.qk_norm);
    cr_assert(!config.tied_embeddings);
    cr_assert_eq(config.rope.theta, 10000);
    cr_assert_eq(config.rope.scaling, ROPE_NONE);
    cr_assert_eq(config.rope.head_dim, 16);
    cr_assert_eq(config.rope.positions_max, 4096);
    cr_assert_eq(config.n_eos_ids, 0);
    cr_assert_eq(parse_with("LlamaForCausalLM", "\"head_dim\": 32").head_dim, 32);
    cr_assert_eq(parse_with("Qwen3ForCausalLM", "").head_dim, 128);
}

Test(model_config, biases_and_norms_by_family)
{
    struct model_config config = parse_with("Qwen2ForCausalLM", "");
    cr_assert(config.qkv_bias && !config.o_bias && !config.decoder.qk_norm);
    config = parse_with("Qwen3ForCausalLM", "\"attention_bias\": true");
    cr_assert(config.qkv_bias && config.o_bias && config.decoder.qk_norm && !config.mlp_bias);
    config = parse_with("LlamaForCausalLM", "\"attention_bias\": true, \"mlp_bias\": true");
    cr_assert(config.qkv_bias && config.o_bias && config.mlp_bias && !config.decoder.qk_norm);
    config = parse_with("MistralForCausalLM", "\"attention_bias\": false");
    cr_assert(!config.qkv_bias && !config.o_bias && !config.decoder.qk_norm);
}

Test(model_config, both_spellings_of_the_rotary_embedding_mean_the_same)
{
    static const char *const PAIRS[][2] = {
        {"\"rope_theta\": 5000.0", "\"rope_parameters\": {\"rope_theta\": 5000, \"rope_type\": "
                                   "\"default\"}"},
        {"\"rope_theta\": 5000.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
         "\"rope_parameters\": {\"rope_theta\": 5000.0, \"rope_type\": \"linear\", \"factor\": "
         "2.0}"},
        {"\"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
         "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
         "\"original_max_position_embeddings\": 1024}",
         "\"original_max_position_embeddings\": 1024, \"rope_parameters\": {\"rope_theta\": 5e5, "
         "\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4}"},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": 1024, "
         "\"factor\": null}",
         "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": true, "
         "\"original_max_position_embeddings\": 1024}"},
    };
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        struct model_config four = parse_with("LlamaForCausalLM", PAIRS[i][0]);
        struct model_config five = parse_with("LlamaForCausalLM", PAIRS[i][1]);
        cr_assert_eq(memcmp(&four.rope, &five.rope, sizeof four.rope), 0, "pair %zu", i);
        cr_assert_neq(four.rope.scaling == ROPE_NONE, i > 0);
    }
}

Test(model_config, yarn_goes_on_from_a_context_that_was_left_at_the_original)
{
    static const struct {
        const char *more;
        uint32_t context_tokens;
    } CASES[] = {
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}", 16384},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
         "\"original_max_position_embeddings\": 4096}",
         16384},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
         "\"original_max_position_embeddings\": 1024}",
         4096},
        {"\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 1.5}", 6144},
        {"\"rope_parameters\": {\"rope_type\": \"yarn\"}", 4096},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}", 4096},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct model_config config = parse_with("LlamaForCausalLM", CASES[i].more);
        cr_expect_eq(config.context_tokens, CASES[i].context_tokens, "%s: %u", CASES[i].more,
                     config.context_tokens);
        cr_expect_eq(config.rope.positions_max, config.context_tokens, "%s", CASES[i].more);
    }
}

Test(model_config, dynamic_scaling_serves_up_to_the_original_context)
{
    struct model_config config = parse_with(
        "LlamaForCausalLM", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}");
    cr_assert_eq(config.rope.scaling, ROPE_DYNAMIC);
    cr_assert_eq(config.rope.original_positions, 4096);
    cr_assert_eq(config.rope.positions_max, 4096);
}

Test(model_config, sliding_windows_by_family)
{
    static const struct {
        const char *architecture, *more;
        uint32_t windows[4];
    } CASES[] = {
        {"LlamaForCausalLM", "\"sliding_window\": null", {0, 0, 0, 0}},
        {"LlamaForCausalLM", "\"sliding_window\": 9", {0, 0, 0, 0}},
        {"MistralForCausalLM", "", {4096, 4096, 4096, 4096}},
        {"MistralForCausalLM", "\"sliding_window\": null", {0, 0, 0, 0}},
        {"MistralForCausalLM", "\"sliding_window\": 9", {9, 9, 9, 9}},
        {"Qwen2ForCausalLM", "\"sliding_window\": 9", {0, 0, 0, 0}},
        {"Qwen2ForCausalLM", "\"sliding_window\": 9, \"use_sliding_window\": false", {0, 0, 0, 0}},
        {"Qwen2ForCausalLM", "\"sliding_window\": 9, \"use_sliding_window\": true", {0, 0, 0, 0}},
        {"Qwen2ForCausalLM",
         "\"sliding_window\": 9, \"use_sliding_window\": true, \"max_window_layers\": 1",
         {0, 9, 9, 9}},
        {"Qwen3ForCausalLM",
         "\"use_sliding_window\": true, \"max_window_layers\": 3",
         {0, 0, 0, 4096}},
        {"Qwen3ForCausalLM",
         "\"sliding_window\": 9, \"use_sliding_window\": true, \"max_window_layers\": 0, "
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\", "
         "\"sliding_attention\"]",
         {0, 9, 0, 9}},
        {"Qwen3ForCausalLM",
         "\"sliding_window\": null, \"use_sliding_window\": true, \"max_window_layers\": 0",
         {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct model_config config = parse_with(CASES[i].architecture, CASES[i].more);
        cr_assert_arr_eq(config.windows, CASES[i].windows, sizeof CASES[i].windows, "case %zu", i);
    }
}

Test(model_config, eos_ids_of_both_files_each_once)
{
    static const char TEXT[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 100, "
        "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"eos_token_id\": [7, 8], "
        "\"bos_token_id\": 1}";
    struct model_config config = parse(TEXT, "{\"eos_token_id\": [8, 9], \"bos_token_id\": 2}");
    static const uint32_t EOS[] = {7, 8, 9};
    cr_assert_eq(config.n_kv_heads, 4);
    cr_assert_eq(config.n_eos_ids, 3);
    cr_assert_arr_eq(config.eos_ids, EOS, sizeof EOS);
    config = parse(TEXT, NULL);
    cr_assert_eq(config.n_eos_ids, 2);
    config = parse(TEXT, "{}");
    cr_assert_eq(config.n_eos_ids, 2);
}
