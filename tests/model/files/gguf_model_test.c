/* A model from a GGUF file has the logits of Transformers for the same weights; what is not read is refused by name. */
#include "gguf/gguf_files.h"
#include "tests/base/support/folder.h"
#include "tests/model/support/gguf_copy.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_gguf(struct runner *runner, const char *name, enum weight_format weights)
{
    char path[512];
    gguf_files_init();
    snprintf(path, sizeof path, GOLDEN_GGUF "/%s.gguf", name);
    runner_open(runner, path,
                (struct runner_options){.block_tokens = 8, .tokens_max = 80, .weights = weights});
}

Test(gguf_model, logits_are_those_of_the_folder)
{
    static const char *const NAMES[][2] = {{"llama_t4", "llama_t4"},
                                           {"split-00001-of-00002", "llama_t4"},
                                           {"mistral_t5", "mistral_t5"},
                                           {"qwen2_t4", "qwen2_t4"},
                                           {"qwen3_t4", "qwen3_t4"},
                                           {"gpt2_model", "gpt2_t4"},
                                           {"neox", "gpt_neox_t4"},
                                           {"bloom", "bloom_t4"},
                                           {"falcon_7b", "falcon_t4_7b"},
                                           {"falcon_40b", "falcon_t4_40b"},
                                           {"falcon_11b", "falcon_t5_11b"},
                                           {"mpt", "mpt_t4"},
                                           {"phi3_longrope", "phi3_t4_longrope"},
                                           {"gemma4", "gemma4_t5"},
                                           {"gemma4_unified", "gemma4_unified_t5"},
                                           {"gemma4_moe", "gemma4_t5_moe"},
                                           {"gemma4_moe_apart", "gemma4_t5_moe_apart"}};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char folder[512];
        struct runner runner;
        snprintf(folder, sizeof folder, GOLDEN_MODELS "/%s", NAMES[i][1]);
        json_t *golden = golden_json(folder, "golden.json");
        const json_t *prompts = json_object_get(golden, "prompts");
        const size_t n_rows = 1 + 9 + 70;
        open_gguf(&runner, NAMES[i][0], WEIGHTS_AUTO);
        float *expected = golden_floats(folder, "golden.f32", n_rows * runner.vocabulary);
        size_t at = 0;
        for (size_t p = 0; p < json_array_size(prompts); p++) {
            uint32_t n;
            uint32_t *ids = golden_ids(json_array_get(prompts, p), &n);
            const double error = runner_largest_error(&runner, ids, n,
                                                      expected + at * runner.vocabulary);
            cr_expect_leq(error, 1e-4, "%s: %g", NAMES[i][0], error);
            at += n;
            free(ids);
        }
        cr_assert_eq(at, n_rows);
        free(expected);
        json_decref(golden);
        runner_close(&runner);
    }
}

Test(gguf_model, blocks_of_every_kind_have_the_logits_of_their_values)
{
    struct runner runner;
    uint32_t n;
    json_t *golden = golden_json(GOLDEN_GGUF, "golden.json");
    uint32_t *ids = golden_ids(json_object_get(golden, "prompt"), &n);
    open_gguf(&runner, "blocks", WEIGHTS_AUTO);
    float *expected = golden_floats(GOLDEN_GGUF, "blocks.f32", n * runner.vocabulary);
    const double error = runner_largest_error(&runner, ids, n, expected);
    printf("blocks                 largest error %.1e\n", error);
    cr_assert_leq(error, 2e-3, "%g", error);
    runner_close(&runner);
    open_gguf(&runner, "blocks", WEIGHTS_INT8); /* rounded anew from the values */
    const double rounded = runner_largest_error(&runner, ids, n, expected);
    cr_assert(rounded > error && rounded < 0.5, "%g", rounded);
    runner_close(&runner);
    free(expected);
    free(ids);
    json_decref(golden);
}

Test(gguf_model, logits_of_each_architecture_are_those_of_transformers)
{
    static const char *const NAMES[] = {"gemma",        "gemma2",         "gemma3",   "phi3",
                                        "granite",      "olmo2",          "qwen3moe", "gpt-oss",
                                        "command-r",    "command-r-plus", "mistral3", "deepseek2",
                                        "deepseek2-v3", "deepseek2-older"};
    uint32_t n;
    json_t *others = golden_json(GOLDEN_GGUF, "others.json");
    uint32_t *ids = golden_ids(json_object_get(others, "prompt"), &n);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char file[64];
        struct runner runner;
        open_gguf(&runner, NAMES[i], WEIGHTS_AUTO);
        snprintf(file, sizeof file, "%s.f32", NAMES[i]);
        float *expected = golden_floats(GOLDEN_GGUF, file, n * runner.vocabulary);
        const double error = runner_largest_error(&runner, ids, n, expected);
        printf("%-22s largest error %.1e\n", NAMES[i], error);
        cr_expect_leq(error, 1e-4, "%s: %g", NAMES[i], error);
        free(expected);
        runner_close(&runner);
    }
    free(ids);
    json_decref(others);
}

/* Embeddings of layers, and gate and up of all experts in one tensor, in blocks as well: a part of an expert begins inside of it. */
Test(gguf_model, layers_that_differ_and_their_experts_may_have_blocks)
{
    struct runner runner;
    uint32_t n;
    json_t *others = golden_json(GOLDEN_GGUF, "others.json");
    uint32_t *ids = golden_ids(json_object_get(others, "prompt"), &n);
    open_gguf(&runner, "gemma4_blocks", WEIGHTS_AUTO);
    const struct weights *weights = model_weights(runner.model);
    cr_expect_eq(weights->layer_inputs.dtype, DTYPE_Q5_0);
    cr_expect_eq(weights->experts[3][3].gate.dtype, DTYPE_Q4_0);
    cr_expect_eq(weights->experts[3][3].up.dtype, DTYPE_Q4_0);
    cr_expect_eq(weights->experts[3][3].down.dtype, DTYPE_Q5_1);
    float *expected = golden_floats(GOLDEN_GGUF, "gemma4_blocks.f32", n * runner.vocabulary);
    const double error = runner_largest_error(&runner, ids, n, expected);
    printf("gemma4_blocks          largest error %.1e\n", error);
    cr_assert_leq(error, 2e-3, "%g", error);
    runner_close(&runner);
    free(expected);
    free(ids);
    json_decref(others);
}

/* W_uk and W_uv of a head are rows of one matrix, in blocks, too. Rounding changes which experts are chosen, so errors are large: those of
 * another head are ten times as large. */
Test(gguf_model, heads_of_latents_are_parts_of_a_matrix_of_blocks)
{
    static const struct {
        enum weight_format weights;
        double most;
    } CASES[] = {{WEIGHTS_Q8, 0.6}, {WEIGHTS_INT8, 0.6}, {WEIGHTS_Q4, 4}};
    uint32_t n;
    json_t *others = golden_json(GOLDEN_GGUF, "others.json");
    uint32_t *ids = golden_ids(json_object_get(others, "prompt"), &n);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct runner runner;
        open_gguf(&runner, "deepseek2", CASES[i].weights);
        const enum dtype dtype = model_weights(runner.model)->layers[0].uk.dtype;
        cr_expect_eq(dtype_is_blocks(dtype), CASES[i].weights != WEIGHTS_INT8);
        float *expected = golden_floats(GOLDEN_GGUF, "deepseek2.f32", n * runner.vocabulary);
        const double error = runner_largest_error(&runner, ids, n, expected);
        printf("deepseek2, rounded     largest error %.1e\n", error);
        cr_expect(error > 1e-3 && error < CASES[i].most, "%zu: %g", i, error);
        free(expected);
        runner_close(&runner);
    }
    free(ids);
    json_decref(others);
}

/* ---- what is no matrix ---- */

#define OF_GEMMA4(rest) "gemma4." rest

static const struct {
    const char *golden, *key, *name;
    uint32_t value;
    const char *sentence;
} UNEQUAL_CASES[] = {
    {"gemma4", OF_GEMMA4("attention.sliding_window"), OF_GEMMA4("attention.sliding_windou"), 0,
     "key gemma4.attention.sliding_window is missing"},
    {"gemma4", OF_GEMMA4("attention.sliding_window_pattern"),
     OF_GEMMA4("attention.sliding_window_patterm"), 0,
     "key gemma4.attention.sliding_window_pattern is missing"},
    {"gemma4", OF_GEMMA4("block_count"), NULL, 1024,
     "key gemma4.block_count is 1024, at most 512 are supported"},
    {"gemma4_moe", "blk.3.attn_k.weight", "blk.3.attn_v.weight", 0,
     "tensor blk.3.attn_v.weight is there, but layers before it that see all tokens have not one"},
    {"gemma4", "blk.0.attn_q_norm.weight", "blk.0.attn_q_norms.scale", 0,
     "tensor blk.0.attn_q_norms.scale scales another one, which is not supported for gemma4"},
    {"gemma4_unified", OF_GEMMA4("feed_forward_length"), OF_GEMMA4("rope.scaling.factor"), 0,
     "key gemma4.rope.scaling.factor is 48, supported for gemma4 is 1"},
    {"gemma4", OF_GEMMA4("attention.key_length_swa"), OF_GEMMA4("attention.key_length_swb"), 0,
     "key gemma4.attention.key_length_swa is missing"},
    {"gemma4", OF_GEMMA4("attention.value_length_swa"), NULL, 16,
     "key gemma4.attention.value_length_swa is 16, but gemma4.attention.key_length_swa is 8"},
    {"gemma4", OF_GEMMA4("rope.dimension_count_swa"), NULL, 4,
     "key gemma4.rope.dimension_count_swa is 4, but gemma4.attention.key_length_swa is 8"},
    {"gemma4", OF_GEMMA4("attention.head_count_kv"), OF_GEMMA4("attention.head_count_kw"), 0,
     "key gemma4.attention.head_count_kv is missing"},
    {"gemma4", OF_GEMMA4("attention.head_count_kv"), NULL, 3, "num_key_value_heads"},
    {"gemma4", OF_GEMMA4("attention.shared_kv_layers"), NULL, 6,
     "key gemma4.attention.shared_kv_layers is 6, expected a whole number 0 .. 5"},
    {"gemma4", OF_GEMMA4("attention.shared_kv_layers"), NULL, 1,
     "key gemma4.feed_forward_length is 32 for layer 3, only 16 is supported there"},
    {"gemma4", OF_GEMMA4("embedding_length_per_layer_input"),
     OF_GEMMA4("embedding_length_per_layer_inqut"), 0,
     "key gemma4.embedding_length_per_layer_input is missing"},
    {"gemma4", OF_GEMMA4("embedding_length_per_layer_input"), NULL, 8,
     "embed_tokens_per_layer.weight has shape [96, 80], expected [96, 40]"},
    {"gemma4_unified", OF_GEMMA4("embedding_length_per_layer_input"), NULL, 8,
     "tensor per_layer_token_embd.weight is missing or no matrix, but key "
     "gemma4.embedding_length_per_layer_input is 8"},
    {"gemma4", "rope_freqs.weight", "rope_freqz.weight", 0, "tensor rope_freqs.weight is missing"},
    {"gemma4", OF_GEMMA4("rope.freq_base"), OF_GEMMA4("rope.freq_basf"), 0,
     "key gemma4.rope.freq_base is missing"},
    {"gemma4_moe", OF_GEMMA4("expert_count"), NULL, 0,
     "key gemma4.expert_count is 0, but tensor blk.0.ffn_gate_inp.weight is there"},
    {"gemma4_moe", OF_GEMMA4("expert_count"), OF_GEMMA4("expert_coumt"), 0,
     "key gemma4.expert_count is missing, but tensor blk.0.ffn_gate_inp.weight is there"},
    {"gemma4_moe", OF_GEMMA4("expert_count"), NULL, 2,
     "key gemma4.expert_used_count is 3, but gemma4.expert_count is 2"},
    {"gemma4_moe", OF_GEMMA4("expert_count"), NULL, 7,
     "router.proj.weight has shape [8, 16], expected [7, 16]"},
    {"gemma4_moe", OF_GEMMA4("expert_used_count"), NULL, 9,
     "key gemma4.expert_used_count is 9, but gemma4.expert_count is 8"},
    {"gemma4_moe", OF_GEMMA4("expert_used_count"), NULL, 0,
     "key gemma4.expert_used_count is 0, expected a whole number 1 .. "},
    {"gemma4_moe", OF_GEMMA4("expert_used_count"), OF_GEMMA4("expert_used_coumt"), 0,
     "key gemma4.expert_used_count is missing"},
    {"gemma4_moe", OF_GEMMA4("expert_feed_forward_length"), NULL, 20,
     "experts.0.gate_proj.weight has shape [24, 16], expected [20, 16]"},
    {"gemma4_moe", OF_GEMMA4("expert_feed_forward_length"), OF_GEMMA4("expert_feed_forward_lengtj"),
     0, "key gemma4.expert_feed_forward_length is missing"},
    {"gemma4_moe", "blk.1.ffn_gate_inp.scale", "blk.1.ffn_gate_inp.scalf", 0,
     "tensor model.layers.1.router.scale is missing, expected with shape [16]"},
    {"gemma4_moe", "blk.1.ffn_down_exps.scale", "blk.1.ffn_down_exps.scalf", 0,
     "tensor model.layers.1.router.per_expert_scale is missing, expected with shape [8]"},
    {"gemma4_moe", "blk.2.ffn_gate_up_exps.weight", "blk.2.ffn_gate_vp_exps.weight", 0,
     "tensor model.layers.2.experts.0.gate_proj.weight is missing"},
    {"gemma4", OF_GEMMA4("attention.key_length"), OF_GEMMA4("nextn_predict_layers"), 0,
     "key gemma4.nextn_predict_layers is 16, supported is up to 0"},
    {"gemma4", OF_GEMMA4("rope.freq_base_swa"), OF_GEMMA4("expert_group_count"), 0,
     "key gemma4.expert_group_count is 10000, supported is up to 1"},
    {"gemma4", "blk.3.layer_output_scale.weight", "blk.3.layer_output_scale.weighu", 0,
     "tensor model.layers.3.layer_scalar is missing"},
};

Test(gguf_model, keys_of_layers_that_differ_are_refused_with_their_values)
{
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_model");
    for (size_t i = 0; i < sizeof UNEQUAL_CASES / sizeof *UNEQUAL_CASES; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", folder, UNEQUAL_CASES[i].golden);
        gguf_copy_with_key(UNEQUAL_CASES[i].golden, UNEQUAL_CASES[i].key, UNEQUAL_CASES[i].name,
                           UNEQUAL_CASES[i].value, path);
        gguf_copy_refused(path, UNEQUAL_CASES[i].key, UNEQUAL_CASES[i].sentence);
    }
    folder_remove(folder);
}

Test(gguf_model, numbers_of_single_layers_are_refused_with_the_layer)
{
    static const struct {
        const char *golden, *key;
        uint64_t element;
        size_t element_bytes;
        uint64_t value;
        const char *sentence;
    } CASES[] = {
        {"gemma4", OF_GEMMA4("attention.sliding_window_pattern"), 4, 1, 1,
         "key gemma4.attention.sliding_window_pattern gives a window to layer 4, the last one"},
        {"gemma4", OF_GEMMA4("attention.sliding_window_pattern"), 1, 1, 1,
         "num_kv_shared_layers is 2: no layer before them is of the type of layer 4"},
        {"gemma4", OF_GEMMA4("feed_forward_length"), 0, 4, 15,
         "key gemma4.feed_forward_length is 16 for layer 1, only 15 is supported there"},
        {"gemma4", OF_GEMMA4("feed_forward_length"), 3, 4, 33,
         "key gemma4.feed_forward_length is 33 for layer 3, only 32 is supported there"},
        {"gemma4", OF_GEMMA4("feed_forward_length"), 2, 4, 0,
         "key gemma4.feed_forward_length is 0 for layer 2, expected a whole number 1 .. "},
        {"gemma4_moe", OF_GEMMA4("attention.head_count_kv"), 3, 4, 2,
         "key gemma4.attention.head_count_kv is 2 for layer 3, but 1 for those before it that see "
         "all tokens"},
        {"gemma4_moe", OF_GEMMA4("attention.head_count_kv"), 2, 4, 1,
         "key gemma4.attention.head_count_kv is 1 for layer 2, but 2 for those before it that have "
         "a window"},
        {"gemma4_moe", OF_GEMMA4("attention.head_count_kv"), 0, 4, 0xffffffff,
         "key gemma4.attention.head_count_kv is -1 for layer 0"},
    };
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_model");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", folder, CASES[i].golden);
        gguf_copy_with_element(CASES[i].golden, CASES[i].key, CASES[i].element,
                               CASES[i].element_bytes, CASES[i].value, path);
        gguf_copy_refused(path, CASES[i].key, CASES[i].sentence);
    }
    static const float FREQUENCIES[] = {1, 1, 1e30f, 1e30f, 1e30f};
    snprintf(path, sizeof path, "%s/rope.gguf", folder);
    gguf_copy_with_float("gemma4", FREQUENCIES, 5, 1, 2, path);
    gguf_copy_refused(path, "rope", "tensor rope_freqs.weight has 2 at 1, supported are ones");
    gguf_copy_with_float("gemma4", FREQUENCIES, 5, 3, 1, path);
    gguf_copy_refused(path, "rope", "tensor rope_freqs.weight has 1 at 3, supported are ones");
    static const char SCALING[] = "\x18\0\0\0\0\0\0\0gemma4.rope.scaling.type\x08\0\0\0"
                                  "\x14\0\0\0\0\0\0\0linear, as it is not";
    gguf_copy_with_more("gemma4", SCALING, sizeof SCALING - 1, path);
    gguf_copy_refused(
        path, "scaling",
        "key gemma4.rope.scaling.type is \"linear, as it is not\", supported for gemma4 "
        "is none");
    static const char SUPPRESSED[] = "\x1e\0\0\0\0\0\0\0tokenizer.ggml.suppress_tokens\x09\0\0\0"
                                     "\0\0\0\0\x0a\0\0\0\0\0\0\0abcdefghij";
    gguf_copy_with_more("gemma4", SUPPRESSED, sizeof SUPPRESSED - 1, path);
    gguf_copy_refused(path, "suppressed",
                      "key tokenizer.ggml.suppress_tokens is 97 at 0, no id of the 96 tokens");
    folder_remove(folder);
}

Test(gguf_model, tokens_that_are_suppressed_are_known)
{
    static const char SUPPRESSED[] =
        "\x1e\0\0\0\0\0\0\0tokenizer.ggml.suppress_tokens\x09\0\0\0"
        "\0\0\0\0\x0a\0\0\0\0\0\0\0\x05\x5f\x05\x5f\x05\x5f\x05\x5f\x05\x5f";
    char folder[256], path[300];
    struct error error = {""};
    struct model *model = NULL;
    folder_make(folder, sizeof folder, "gguf_model");
    snprintf(path, sizeof path, "%s/suppressed.gguf", folder);
    gguf_files_init();
    gguf_copy_with_more("gemma4", SUPPRESSED, sizeof SUPPRESSED - 1, path);
    cr_assert_eq(model_load(path, NULL, &error, &model), STATUS_OK, "%s", error.text);
    const struct model_config *config = model_get_config(model);
    cr_assert_eq(config->n_suppressed, 2);
    cr_expect(config->suppressed_ids[0] == 5 && config->suppressed_ids[1] == 95);
    model_destroy(model);
    folder_remove(folder);
}

Test(gguf_model, keys_of_latents_that_are_not_computed_are_refused)
{
    static const struct {
        const char *golden, *key, *name;
        uint32_t value;
        const char *sentence;
    } CASES[] = {
        {"deepseek2", "deepseek2.attention.kv_lora_rank", "deepseek2.attention.kv_lora_rang", 0,
         "key deepseek2.attention.kv_lora_rank is missing"},
        {"deepseek2", "deepseek2.attention.kv_lora_rank", NULL, 48,
         "kv_a_proj_with_mqa.weight has shape [40, 32], expected [56, 32]"},
        {"deepseek2", "deepseek2.expert_weights_scale", "deepseek2.nextn_predict_layers", 0,
         "key deepseek2.nextn_predict_layers is there"},
        {"deepseek2", "deepseek2.expert_gating_func", NULL, 3,
         "key deepseek2.expert_gating_func is 3, supported are 1 (softmax) and 2 (sigmoid)"},
        {"deepseek2-v3", "deepseek2.expert_gating_func", NULL, 0,
         "key deepseek2.expert_gating_func is 0"},
        {"deepseek2", "deepseek2.attention.key_length_mla", NULL, 8,
         "key deepseek2.attention.key_length_mla is 8, expected more than the 8 that are rotated"},
        {"deepseek2", "deepseek2.attention.value_length_mla", NULL, 24,
         "v_b_proj.weight has shape [80, 32], expected [96, 32]"},
        {"deepseek2", "deepseek2.expert_group_used_count", NULL, 5, "topk_group is 5 of n_group 4"},
        {"deepseek2", "deepseek2.rope.dimension_count", NULL, 12, "qk_rope_head_dim is 12"},
        {"deepseek2", "deepseek2.leading_dense_block_count", NULL, 2,
         "layers.1.mlp.gate_proj.weight is missing"},
    };
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_model");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", folder, CASES[i].golden);
        gguf_copy_with_key(CASES[i].golden, CASES[i].key, CASES[i].name, CASES[i].value, path);
        gguf_copy_refused(path, CASES[i].key, CASES[i].sentence);
    }
    snprintf(path, sizeof path, "%s/older.gguf", folder);
    gguf_copy_with_blocks("deepseek2-older", "blk.0.attn_kv_b.weight", path);
    gguf_copy_refused(path, "kv_b", "has type Q8_0, and W_uk and W_uv of all heads in one");
    folder_remove(folder);
}

Test(gguf_model, only_matrices_may_have_blocks)
{
    static const char *const CASES[][3] = {
        {"blocks", "blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
        {"blocks", "output_norm.weight", "model.norm.weight"},
        {"gpt-oss", "blk.0.ffn_down_exps.bias", "mlp.experts.0.down_proj.bias"},
        {"gpt-oss", "blk.1.ffn_gate_exps.bias", "mlp.experts.0.gate_proj.bias"},
        {"gpt-oss", "blk.0.attn_q.bias", "self_attn.q_proj.bias"},
    };
    char folder[256];
    folder_make(folder, sizeof folder, "gguf_model");
    gguf_files_init();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct error error = {""};
        struct model *model = NULL;
        char path[300];
        snprintf(path, sizeof path, "%s/%s.gguf", folder, CASES[i][0]);
        gguf_copy_with_blocks(CASES[i][0], CASES[i][1], path);
        cr_expect_eq(model_load(path, NULL, &error, &model), STATUS_UNSUPPORTED, "%s: %s",
                     CASES[i][1], error.text);
        cr_expect(strstr(error.text, CASES[i][2]) &&
                      strstr(error.text, "has type Q8_0, which is supported for matrices alone"),
                  "%s: %s", CASES[i][1], error.text);
    }
    folder_remove(folder);
}
