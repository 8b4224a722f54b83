/* A quantized checkpoint has the logits of Transformers for the values of its weights; what is broken is refused by name. */
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_QUANTIZED KVFERRY_SOURCE_DIR "/tests/golden/quantized"

static double largest_error(const char *name, enum weight_format weights, uint32_t n_threads)
{
    char folder[512];
    struct runner runner;
    uint32_t n;
    snprintf(folder, sizeof folder, GOLDEN_QUANTIZED "/%s", name);
    json_t *prompt = golden_json(GOLDEN_QUANTIZED, "prompt.json");
    uint32_t *ids = golden_ids(prompt, &n);
    runner_open(
        &runner, folder,
        (struct runner_options){
            .block_tokens = 8, .tokens_max = 64, .weights = weights, .n_threads = n_threads});
    float *expected = golden_floats(folder, "golden.f32", (size_t)n * runner.vocabulary);
    const double error = runner_largest_error(&runner, ids, n, expected);
    runner_close(&runner);
    free(expected);
    free(ids);
    json_decref(prompt);
    return error;
}

/* Logits are about 20. x is rounded to 16 bits for blocks; groups that are mixed are rounded to F16, as their makers do. */
static const struct {
    const char *name;
    double error;
} CASES[] = {
    {"awq", 2e-3},
    {"gptq", 2e-3},
    {"gptq_v2", 2e-3},
    {"gptq_mixed", 2e-2},
    {"gptq_8", 2e-3},
    {"packed_4", 2e-3},
    {"packed_4_zero", 2e-3},
    {"packed_8", 2e-3},
    {"int8", 2e-3},
    {"fp8_rows", 1e-4},
    {"fp8_blocks", 1e-4},
    {"fp8_whole", 1e-4},
    /* Q, K and V, and gate and up, are one matrix; in those of GPT-NeoX by each group of heads. */
    {"phi3_awq", 2e-3},
    {"phi3_gptq", 2e-3},
    {"phi3_gptq_mixed", 2e-2},
    {"phi3_packed_4_zero", 2e-3},
    {"phi3_int8", 2e-3},
    {"phi3_fp8_rows", 1e-4},
    {"phi3_fp8_whole", 1e-4},
    {"gpt_neox_gptq", 2e-3},
    {"gpt_neox_packed_8", 2e-3},
    {"gpt2_gptq", 2e-3},
    /* Heads of kv_b_proj begin in the middle of blocks. */
    {"deepseek_v3_fp8_blocks", 1e-4},
    {"deepseek_v3_fp8_rows", 1e-4},
    /* Q and the gate of each head by turns; layers with recurrent state. */
    {"qwen3_5_gptq", 2e-3},
    {"qwen3_5_packed_8", 2e-3},
    {"qwen3_5_fp8_rows", 1e-4},
    {"qwen3_5_fp8_whole", 1e-4},
    {"qwen3_5_fp8_blocks", 1e-4},
};

Test(quantized_files, logits_are_those_of_the_values)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const double error = largest_error(CASES[i].name, WEIGHTS_AUTO, i % 3);
        printf("%-16s largest error %.1e\n", CASES[i].name, error);
        cr_expect_leq(error, CASES[i].error, "%s: %g", CASES[i].name, error);
    }
}

Test(quantized_files, blocks_are_rounded_anew)
{
    const double error = largest_error("gptq", WEIGHTS_INT8, 2);
    cr_assert(error > 2e-3 && error < 2, "%g", error);
}

static const struct bad_file {
    const char *name;
    enum broken_what what;
    const char *argument;
    enum status status;
    const char *word;
} BAD[] = {
    {"awq", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}}",
     STATUS_UNSUPPORTED, "bitsandbytes"},
    {"awq", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": null, \"load_in_4bit\": true}}",
     STATUS_UNSUPPORTED, "take the model that it was made of"},
    {"awq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"hqq\"}}",
     STATUS_UNSUPPORTED, "quant_method is \"hqq\""},
    {"awq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}}",
     STATUS_UNSUPPORTED, "gpt_oss alone"},
    {"awq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 3}}",
     STATUS_UNSUPPORTED, "bits is 3"},
    {"awq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": null}}",
     STATUS_CORRUPT, "bits"},
    {"awq", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\"}}",
     STATUS_UNSUPPORTED, "version is \"gemv\""},
    {"gptq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 2}}",
     STATUS_UNSUPPORTED, "bits is 2"},
    {"gptq", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"is_marlin_format\": "
     "true}}",
     STATUS_UNSUPPORTED, "is_marlin_format"},
    {"gptq", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"checkpoint_format\": "
     "\"marlin\"}}",
     STATUS_UNSUPPORTED, "checkpoint_format is \"marlin\""},
    {"gptq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8}}",
     STATUS_CORRUPT, "q_proj.qweight is not I32"},
    {"gptq", CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4}}",
     STATUS_CORRUPT, "q_proj.qweight is not I32"},
    {"gptq_8", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8, \"checkpoint_format\": "
     "\"gptq_v2\"}}",
     STATUS_UNSUPPORTED, "zero point beside the middle"},
    {"packed_4", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
     "\"nvfp4-pack-quantized\"}}",
     STATUS_UNSUPPORTED, "nvfp4-pack-quantized"},
    {"packed_4", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": null}}",
     STATUS_CORRUPT, "format"},
    {"fp8_blocks", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128]}}",
     STATUS_UNSUPPORTED, "weight_block_size"},
    {"fp8_blocks", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [32, 32]}}",
     STATUS_CORRUPT, "q_proj.weight_scale_inv has neither"},
    {"fp8_blocks", CONFIG_SET,
     "{\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}}",
     STATUS_UNSUPPORTED, "fmt is \"e5m2\""},
    {"fp8_blocks", CONFIG_SET, "{\"quantization_config\": null}", STATUS_UNSUPPORTED,
     "dtype F8_E4M3"},
    {"gpt2_packed_4", NOTHING, "", STATUS_UNSUPPORTED,
     "h.0.attn.c_attn.weight is quantized: that is not supported for matrices that are transposed"},
    {"phi3_fp8_blocks", NOTHING, "", STATUS_UNSUPPORTED,
     "qkv_proj.weight has parts that share a block of one scale"},
    {"deepseek_v3_int8", NOTHING, "", STATUS_UNSUPPORTED,
     "kv_b_proj.weight is quantized: of the quantized forms of this matrix only F8_E4M3"},
    {"qwen3_5_fp8_blocks", CONFIG_SET, "{\"num_attention_heads\": 4, \"head_dim\": 32}",
     STATUS_UNSUPPORTED, "q_proj.weight has parts that share a block of one scale"},
    {"awq", TENSOR_STRIP, "model.layers.0.self_attn.q_proj.sc", STATUS_CORRUPT,
     "q_proj.scales is missing"},
    {"gptq", TENSOR_STRIP, "model.layers.0.self_attn.q_proj.qz", STATUS_CORRUPT,
     "q_proj.qzeros is missing"},
    {"packed_4", TENSOR_STRIP, "model.layers.0.mlp.down_proj.weight_s", STATUS_CORRUPT,
     "down_proj.weight_scale is missing"},
    {"int8", TENSOR_STRIP, "model.layers.0.mlp.down_proj.weight_", STATUS_CORRUPT,
     "down_proj.weight_scale is missing"},
};

Test(quantized_files, what_is_broken_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char original[512];
        struct broken_folder folder;
        struct error error = {""};
        struct model *model = NULL;
        snprintf(original, sizeof original, GOLDEN_QUANTIZED "/%s", BAD[i].name);
        broken_folder_make(&folder, original, BAD[i].what, BAD[i].argument);
        const enum status status = model_load(folder.path, NULL, &error, &model);
        cr_expect_eq(status, BAD[i].status, "%s %s: %s (%s)", BAD[i].name, BAD[i].argument,
                     status_name(status), error.text);
        cr_expect(strstr(error.text, BAD[i].word), "no \"%s\" in \"%s\"", BAD[i].word, error.text);
        model_destroy(status == STATUS_OK ? model : NULL);
        broken_folder_remove(&folder);
    }
}

/* Changes some digits and letters of the table of tensors: shapes, types, names, offsets. */
static void spoil(uint8_t *header, size_t n, uint64_t seed)
{
    static const char SIGNS[] = "0123456789FIB_swq";
    for (uint32_t i = 0; i < 1 + seed % 3; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        header[(seed >> 33) % n] = (uint8_t)SIGNS[(seed >> 20) % (sizeof SIGNS - 1)];
    }
}

/* The folder's weights with a spoiled header. */
static void write_spoiled(const char *folder, uint64_t seed)
{
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *file = fopen(path, "r+b");
    uint64_t n = 0;
    cr_assert(file && fread(&n, sizeof n, 1, file) == 1 && n < 1 << 20);
    uint8_t *header = malloc(n);
    cr_assert_eq(fread(header, 1, n, file), n);
    spoil(header, n, seed);
    cr_assert_eq(fseek(file, sizeof n, SEEK_SET), 0);
    cr_assert_eq(fwrite(header, 1, n, file), n);
    cr_assert_eq(fclose(file), 0);
    free(header);
}

Test(quantized_files, a_spoiled_table_is_refused_with_a_sentence)
{
    enum { EACH = 25 };
    uint32_t n_refused = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (uint32_t j = 0; j < EACH; j++) {
            char original[512];
            struct broken_folder folder;
            struct error error = {""};
            struct model *model = NULL;
            snprintf(original, sizeof original, GOLDEN_QUANTIZED "/%s", CASES[i].name);
            broken_folder_make(&folder, original, NOTHING, "");
            write_spoiled(folder.path, i * EACH + j + 1);
            const struct model_options quiet = {.is_quiet = true};
            const enum status status = model_load(folder.path, &quiet, &error, &model);
            cr_expect(status == STATUS_OK || error.text[0], "%s, %u: %s without a sentence",
                      CASES[i].name, j, status_name(status));
            n_refused += status != STATUS_OK;
            model_destroy(status == STATUS_OK ? model : NULL);
            broken_folder_remove(&folder);
        }
    cr_assert_gt(n_refused, EACH * sizeof CASES / sizeof *CASES / 2);
}
