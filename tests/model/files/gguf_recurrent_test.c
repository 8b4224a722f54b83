/* A model whose layers have recurrent state has the logits of its folder when it comes from a GGUF file, with the changes that the
 * converter makes undone; what is not read is refused with its value. */
#include "gguf/gguf_file.h"
#include "gguf/gguf_files.h"
#include "tests/base/support/folder.h"
#include "tests/model/support/gguf_copy.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_gguf(struct runner *runner, const char *name, enum weight_format weights)
{
    char path[512];
    gguf_files_init();
    snprintf(path, sizeof path, GOLDEN_GGUF "/%s.gguf", name);
    runner_open(runner, path,
                (struct runner_options){.block_tokens = 32, .tokens_max = 80, .weights = weights});
}

Test(gguf_recurrent, logits_are_those_of_the_folder)
{
    static const char *const NAMES[][2] = {{"qwen35", "qwen3_5_t5"},
                                           {"qwen35_text", "qwen3_5_t5_text"},
                                           {"qwen35moe", "qwen3_5_moe_t5"}};
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
        double largest = 0;
        for (size_t p = 0; p < json_array_size(prompts); p++) {
            uint32_t n;
            uint32_t *ids = golden_ids(json_array_get(prompts, p), &n);
            const double error = runner_largest_error(&runner, ids, n,
                                                      expected + at * runner.vocabulary);
            largest = error > largest ? error : largest;
            at += n;
            free(ids);
        }
        cr_assert_eq(at, n_rows);
        printf("%-22s largest error %.1e\n", NAMES[i][0], largest);
        cr_expect_leq(largest, 1e-4, "%s: %g", NAMES[i][0], largest);
        free(expected);
        json_decref(golden);
        runner_close(&runner);
    }
}

/* Both forms of qwen3next, and a model in blocks: those of ssm_out have columns of eight heads, in tiles as the file has them. */
Test(gguf_recurrent, logits_are_those_of_transformers)
{
    static const struct {
        const char *name, *floats;
        double most;
    } CASES[] = {{"qwen3next", "qwen3next", 1e-4},
                 {"qwen3next_older", "qwen3next", 1e-4},
                 {"qwen35_blocks", "qwen35_blocks", 2e-3}};
    uint32_t n;
    json_t *others = golden_json(GOLDEN_GGUF, "others.json");
    uint32_t *ids = golden_ids(json_object_get(others, "prompt"), &n);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char file[64];
        struct runner runner;
        snprintf(file, sizeof file, "%s.f32", CASES[i].floats);
        open_gguf(&runner, CASES[i].name, WEIGHTS_AUTO);
        float *expected = golden_floats(GOLDEN_GGUF, file, n * runner.vocabulary);
        const double error = runner_largest_error(&runner, ids, n, expected);
        printf("%-22s largest error %.1e\n", CASES[i].name, error);
        cr_expect_leq(error, CASES[i].most, "%s: %g", CASES[i].name, error);
        free(expected);
        runner_close(&runner);
    }
    free(ids);
    json_decref(others);
}

Test(gguf_recurrent, weights_keep_the_types_of_the_file)
{
    struct runner runner;
    open_gguf(&runner, "qwen35_blocks", WEIGHTS_AUTO);
    const struct layer_weights *layer = &model_weights(runner.model)->layers[0];
    cr_expect_eq(layer->q.dtype, DTYPE_Q5_0);
    cr_expect_eq(layer->v.dtype, DTYPE_Q5_0);
    cr_expect_eq(layer->output_gate.dtype, DTYPE_Q5_1);
    cr_expect_eq(layer->decay.dtype, DTYPE_Q8_0);
    cr_expect_eq(layer->beta.dtype, DTYPE_Q4_1);
    cr_expect_eq(layer->o.dtype, DTYPE_Q4_K);
    cr_expect_eq(layer->conv.dtype, DTYPE_F32);
    runner_close(&runner);
}

/* Rows of one matrix that are Q, K and V, and rows by groups, are rounded as other rows are. */
Test(gguf_recurrent, weights_may_be_rounded)
{
    static const struct {
        const char *name;
        enum weight_format weights;
        double most;
    } ROUNDED[] = {{"qwen35_blocks", WEIGHTS_INT8, 1},
                   {"qwen3next", WEIGHTS_INT8, 1},
                   {"qwen3next", WEIGHTS_Q8, 1},
                   {"qwen3next_older", WEIGHTS_Q8, 1}};
    uint32_t n;
    json_t *others = golden_json(GOLDEN_GGUF, "others.json");
    uint32_t *ids = golden_ids(json_object_get(others, "prompt"), &n);
    for (size_t i = 0; i < sizeof ROUNDED / sizeof *ROUNDED; i++) {
        const bool is_next = strncmp(ROUNDED[i].name, "qwen3next", 9) == 0;
        struct runner runner;
        open_gguf(&runner, ROUNDED[i].name, ROUNDED[i].weights);
        float *expected = golden_floats(
            GOLDEN_GGUF, is_next ? "qwen3next.f32" : "qwen35_blocks.f32", n * runner.vocabulary);
        const double error = runner_largest_error(&runner, ids, n, expected);
        printf("%-22s rounded: largest error %.1e\n", ROUNDED[i].name, error);
        cr_expect(error > 1e-3 && error < ROUNDED[i].most, "%s: %g", ROUNDED[i].name, error);
        free(expected);
        runner_close(&runner);
    }
    free(ids);
    json_decref(others);
}

/* ---- what is refused ---- */

static const struct {
    const char *golden, *key, *name;
    uint32_t value;
    const char *sentence;
} CASES[] = {
    {"qwen35_text", "qwen35.ssm.conv_kernel", "qwen35.ssm.conv_kernex", 0,
     "key qwen35.ssm.conv_kernel is missing"},
    {"qwen35_text", "qwen35.ssm.state_size", "qwen35.ssm.state_sixe", 0,
     "key qwen35.ssm.state_size is missing"},
    {"qwen35_text", "qwen35.ssm.group_count", "qwen35.ssm.group_counx", 0,
     "key qwen35.ssm.group_count is missing"},
    {"qwen35_text", "qwen35.ssm.time_step_rank", "qwen35.ssm.time_step_ranx", 0,
     "key qwen35.ssm.time_step_rank is missing"},
    {"qwen35_text", "qwen35.ssm.inner_size", "qwen35.ssm.inner_sixe", 0,
     "key qwen35.ssm.inner_size is missing"},
    {"qwen35_text", "qwen35.rope.dimension_count", "qwen35.rope.dimension_counx", 0,
     "key qwen35.rope.dimension_count is missing"},
    {"qwen35_text", "qwen35.feed_forward_length", "qwen35.feed_forward_lengtx", 0,
     "key qwen35.feed_forward_length is missing"},
    {"qwen35moe", "qwen35moe.expert_count", "qwen35moe.expert_counx", 0,
     "key qwen35moe.expert_count is missing"},
    {"qwen35moe", "qwen35moe.expert_shared_feed_forward_length",
     "qwen35moe.expert_shared_feed_forward_lengtx", 0,
     "key qwen35moe.expert_shared_feed_forward_length is missing"},
    {"qwen3next", "qwen3next.feed_forward_length", "qwen3next.feed_forward_lengtx", 0,
     "key qwen3next.feed_forward_length is missing"},
    {"qwen35_text", "qwen35.ssm.conv_kernel", NULL, 0,
     "key qwen35.ssm.conv_kernel is 0, expected a whole number 1 .. "},
    {"qwen35_text", "qwen35.ssm.conv_kernel", NULL, 3,
     "linear_attn.conv1d.weight has shape [256, 1, 4], expected [256, 1, 3]"},
    {"qwen35_text", "qwen35.ssm.conv_kernel", NULL, 9, "linear_conv_kernel_dim is 9"},
    {"qwen35_text", "qwen35.ssm.state_size", NULL, 32,
     "linear_attn.in_proj_qkv.weight has shape [256, 32], expected [320, 32]"},
    {"qwen35_text", "qwen35.ssm.state_size", NULL, 20, "linear_key_head_dim is 20"},
    {"qwen35", "qwen35.ssm.group_count", NULL, 3,
     "linear_num_key_heads is 3, which does not divide linear_num_value_heads 4"},
    {"qwen35", "qwen35.ssm.group_count", NULL, 4,
     "linear_attn.in_proj_qkv.weight has shape [160, 32], expected [256, 32]"},
    {"qwen35", "qwen35.ssm.time_step_rank", NULL, 3,
     "key qwen35.ssm.inner_size is 64, no multiple of qwen35.ssm.time_step_rank, which is 3"},
    {"qwen35", "qwen35.ssm.time_step_rank", NULL, 8,
     "linear_attn.in_proj_b.weight has shape [4, 32], expected [8, 32]"},
    {"qwen35", "qwen35.ssm.inner_size", NULL, 96,
     "linear_attn.in_proj_qkv.weight has shape [160, 32], expected [192, 32]"},
    {"qwen35_text", "qwen35.nextn_predict_layers", NULL, 5,
     "key qwen35.nextn_predict_layers is 5, but qwen35.block_count is 5"},
    {"qwen35_text", "qwen35.nextn_predict_layers", NULL, 0,
     "tensor model.layers.4.linear_attn.in_proj_qkv.weight is missing"},
    {"qwen35_text", "qwen35.block_count", NULL, 4000,
     "key qwen35.block_count is 4000, at most 512 are supported"},
    {"qwen35_text", "qwen35.full_attention_interval", NULL, 3,
     "tensor model.layers.1.linear_attn.in_proj_qkv.weight is missing"},
    {"qwen35_text", "qwen35.full_attention_interval", NULL, 0,
     "key qwen35.full_attention_interval is 0, expected a whole number 1 .. 512"},
    {"qwen35_text", "qwen35.full_attention_interval", NULL, 5,
     "layer_types: no layer has attention"},
    {"qwen35_text", "qwen35.rope.dimension_count", NULL, 64,
     "key qwen35.rope.dimension_count is 64, only the whole head of 32 elements is supported"},
    {"qwen35_text", "qwen35.attention.value_length", NULL, 16,
     "key qwen35.attention.value_length is 16, but keys have 32 elements"},
    {"qwen35moe", "qwen35moe.expert_used_count", NULL, 6, "num_experts_per_tok is 6"},
    {"qwen35moe", "qwen35moe.expert_count", NULL, 4,
     "mlp.gate.weight has shape [5, 32], expected [4, 32]"},
    {"qwen35moe", "qwen35moe.expert_feed_forward_length", NULL, 24,
     "mlp.experts.0.gate_proj.weight has shape [16, 32], expected [24, 32]"},
    {"qwen35moe", "qwen35moe.expert_shared_feed_forward_length", NULL, 16,
     "mlp.shared_expert.gate_proj.weight has shape [24, 32], expected [16, 32]"},
    {"qwen35_text", "blk.0.ssm_a", "blk.0.ssm_b", 0,
     "tensor model.layers.0.linear_attn.A_log is missing, expected with shape [4]"},
    {"qwen35_text", "blk.2.ssm_dt.bias", "blk.2.ssm_dt.biax", 0,
     "tensor model.layers.2.linear_attn.dt_bias is missing, expected with shape [4]"},
    {"qwen35_text", "blk.0.ssm_norm.weight", "blk.0.ssm_norm.weighx", 0,
     "tensor model.layers.0.linear_attn.norm.weight is missing, expected with shape [16]"},
    {"qwen35_text", "blk.0.attn_gate.weight", "blk.0.attn_gate.weighx", 0,
     "tensor model.layers.0.linear_attn.in_proj_z.weight is missing"},
    {"qwen3next", "blk.0.ssm_ba.weight", "blk.0.ssm_ba.weighx", 0,
     "tensor model.layers.0.linear_attn.in_proj_ba.weight is missing, expected with shape [12, "
     "32]"},
    {"qwen3next", "blk.2.attn_qkv.weight", "blk.2.attn_qkv.weighx", 0,
     "tensor model.layers.2.linear_attn.in_proj_qkv.weight is missing"},
    {"qwen3next_older", "blk.2.ssm_in.weight", "blk.2.ssm_in.weighx", 0,
     "tensor model.layers.2.linear_attn.in_proj_qkvz.weight is missing"},
    {"qwen35moe", "blk.3.ffn_gate_inp_shexp.weight", "blk.3.ffn_gate_inp_shexp.weighx", 0,
     "tensor model.layers.3.mlp.shared_expert_gate.weight is missing, expected with shape [1, 32]"},
};

Test(gguf_recurrent, keys_and_tensors_are_refused_with_their_values)
{
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_recurrent");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", folder, CASES[i].golden);
        gguf_copy_with_key(CASES[i].golden, CASES[i].key, CASES[i].name, CASES[i].value, path);
        gguf_copy_refused(path, CASES[i].key, CASES[i].sentence);
    }
    folder_remove(folder);
}

Test(gguf_recurrent, lists_are_refused_with_their_place)
{
    static const struct {
        const char *golden, *key;
        uint64_t element;
        size_t element_bytes;
        uint64_t value;
        const char *sentence;
    } LISTS[] = {
        {"qwen35", "qwen35.attention.recurrent_layers", 3, 1, 0,
         "tensor model.layers.3.self_attn.q_proj.weight is missing"},
        {"qwen35", "qwen35.attention.recurrent_layers", 1, 1, 1,
         "layer_types: no layer has attention"},
        {"qwen35", "qwen35.rope.dimension_sections", 2, 4, 0,
         "key qwen35.rope.dimension_sections is 2, 1, 0, 0: pair 2 of the 4 that rotate has no "
         "position of a text"},
        {"qwen35", "qwen35.rope.dimension_sections", 3, 4, 0xffffffff,
         "key qwen35.rope.dimension_sections is -1 at 3, expected a number 0 .. "},
        {"qwen35", "qwen35.rope.dimension_sections", 3, 4, 7, NULL},
    };
    char folder[256], path[300];
    struct error error = {""};
    folder_make(folder, sizeof folder, "gguf_recurrent");
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", folder, LISTS[i].golden);
        gguf_copy_with_element(LISTS[i].golden, LISTS[i].key, LISTS[i].element,
                               LISTS[i].element_bytes, LISTS[i].value, path);
        if (LISTS[i].sentence) {
            gguf_copy_refused(path, LISTS[i].key, LISTS[i].sentence);
            continue;
        }
        struct model *model = NULL; /* the pairs come in turns, so the fourth section has none */
        cr_assert_eq(model_load(path, NULL, &error, &model), STATUS_OK, "%s", error.text);
        model_destroy(model);
    }
    folder_remove(folder);
}

/* Keys that no golden has; sentence NULL: with this value the file is loaded. */
Test(gguf_recurrent, what_is_not_computed_is_refused)
{
    static const uint32_t ZERO = 0, ONE = 1, TWO = 2;
    static const float HALF = 0.5f;
    static const bool NO = false, YES = true;
    static const struct {
        const char *golden, *key;
        enum gguf_kind kind;
        const void *value;
        const char *sentence;
    } KEYS[] = {
        {"qwen35", "qwen35.ssm.v_head_reordered", GGUF_BOOL, &NO,
         "key qwen35.ssm.v_head_reordered is false, only true is supported"},
        {"qwen35", "qwen35.ssm.v_head_reordered", GGUF_BOOL, &YES, NULL},
        {"qwen3next", "qwen3next.ssm.v_head_reordered", GGUF_BOOL, &YES,
         "key qwen3next.ssm.v_head_reordered is true, only false is supported"},
        {"qwen35moe", "qwen35moe.expert_weights_norm", GGUF_BOOL, &NO,
         "key qwen35moe.expert_weights_norm is false, only true is supported"},
        {"qwen35moe", "qwen35moe.expert_gating_func", GGUF_U32, &TWO,
         "key qwen35moe.expert_gating_func is 2, supported is up to 1"},
        {"qwen35moe", "qwen35moe.expert_gating_func", GGUF_U32, &ONE, NULL},
        {"qwen35moe", "qwen35moe.expert_group_count", GGUF_U32, &TWO,
         "key qwen35moe.expert_group_count is 2, supported is up to 1"},
        {"qwen3next", "qwen3next.expert_weights_scale", GGUF_F32, &HALF,
         "key qwen3next.expert_weights_scale is 0.5, only 1 is supported"},
        {"qwen35", "qwen35.expert_count", GGUF_U32, &TWO,
         "key qwen35.expert_count is 2, which is not supported in GGUF files"},
        {"qwen35", "qwen35.nextn_predict_layers", GGUF_U32, &ZERO, NULL},
    };
    char folder[256], path[300];
    struct error error = {""};
    folder_make(folder, sizeof folder, "gguf_recurrent");
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", folder, KEYS[i].golden);
        gguf_copy_with_number(KEYS[i].golden, KEYS[i].key, KEYS[i].kind, KEYS[i].value, path);
        if (KEYS[i].sentence) {
            gguf_copy_refused(path, KEYS[i].key, KEYS[i].sentence);
            continue;
        }
        struct model *model = NULL;
        cr_assert_eq(model_load(path, NULL, &error, &model), STATUS_OK, "%s", error.text);
        model_destroy(model);
    }
    folder_remove(folder);
}

/* A logarithm is made of them. */
Test(gguf_recurrent, rates_that_are_not_below_zero_are_refused)
{
    static const struct {
        float value;
        const char *sentence;
    } RATES[] = {{0, "tensor blk.2.ssm_a has 0 at 1, expected a value below 0: -exp(A_log)"},
                 {2, "tensor blk.2.ssm_a has 2 at 1"},
                 {NAN, "tensor blk.2.ssm_a has nan at 1"},
                 {-INFINITY, "tensor blk.2.ssm_a has -inf at 1"}};
    char folder[256], path[300];
    float rates[4];
    struct gguf_file file;
    struct error error = {""};
    folder_make(folder, sizeof folder, "gguf_recurrent");
    snprintf(path, sizeof path, GOLDEN_GGUF "/qwen35.gguf");
    cr_assert_eq(gguf_open(path, &file, &error), STATUS_OK, "%s", error.text);
    const struct gguf_tensor *tensor = gguf_find_tensor(&file, "blk.2.ssm_a");
    cr_assert(tensor && tensor->bytes == sizeof rates);
    memcpy(rates, tensor->data, sizeof rates);
    gguf_close(&file);
    snprintf(path, sizeof path, "%s/qwen35.gguf", folder);
    for (size_t i = 0; i < sizeof RATES / sizeof *RATES; i++) {
        gguf_copy_with_float("qwen35", rates, 4, 1, RATES[i].value, path);
        gguf_copy_refused(path, "rates", RATES[i].sentence);
    }
    folder_remove(folder);
}

Test(gguf_recurrent, only_matrices_may_have_blocks)
{
    static const char *const TENSORS[][2] = {
        {"blk.0.ssm_conv1d.weight", "tensor blk.0.ssm_conv1d.weight has rows of 4 elements"},
        {"blk.0.ssm_norm.weight", "has type Q8_0, which is supported for matrices alone"},
    };
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_recurrent");
    snprintf(path, sizeof path, "%s/qwen35_blocks.gguf", folder);
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        gguf_copy_with_blocks("qwen35_blocks", TENSORS[i][0], path);
        gguf_copy_refused(path, TENSORS[i][0], TENSORS[i][1]);
    }
    folder_remove(folder);
}
