/* A model from a GGUF file has the logits of Transformers for the same weights; what is not read is refused by name. */
#include "gguf/gguf_files.h"
#include "tests/base/support/folder.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_GGUF KVFERRY_SOURCE_DIR "/tests/golden/gguf"

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
                                           {"phi3_longrope", "phi3_t4_longrope"}};
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
    static const char *const NAMES[] = {"gemma",     "gemma2",         "gemma3",   "phi3",
                                        "granite",   "olmo2",          "qwen3moe", "gpt-oss",
                                        "command-r", "command-r-plus", "mistral3"};
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

/* ---- what is no matrix ---- */

enum { TYPE_Q8_0 = 8 };

/* A copy of a golden in which a tensor of floats says that it has blocks. path_out: of the copy. */
static void write_with_blocks(const char *golden, const char *tensor, const char *folder,
                              char *path_out, size_t path_max)
{
    static uint8_t bytes[1 << 20];
    char path[512];
    snprintf(path, sizeof path, GOLDEN_GGUF "/%s.gguf", golden);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    uint8_t *name = memmem(bytes, n, tensor, strlen(tensor));
    cr_assert(n < sizeof bytes && name, "%s has no %s", golden, tensor);
    uint8_t *at = name + strlen(tensor); /* dimensions, then the type */
    uint32_t n_dims, type = TYPE_Q8_0;
    memcpy(&n_dims, at, sizeof n_dims);
    memcpy(at + sizeof n_dims + n_dims * sizeof(uint64_t), &type, sizeof type);
    snprintf(path_out, path_max, "%s/%s.gguf", folder, golden);
    file = fopen(path_out, "wb");
    cr_assert(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0, "%s", path_out);
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
        char path[512];
        write_with_blocks(CASES[i][0], CASES[i][1], folder, path, sizeof path);
        cr_expect_eq(model_load(path, NULL, &error, &model), STATUS_UNSUPPORTED, "%s: %s",
                     CASES[i][1], error.text);
        cr_expect(strstr(error.text, CASES[i][2]) &&
                      strstr(error.text, "has type Q8_0, which is supported for matrices alone"),
                  "%s: %s", CASES[i][1], error.text);
    }
    folder_remove(folder);
}
