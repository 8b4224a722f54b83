/* weight_types: the bytes by type add up to those of the model, and are of the types of its files. */
#include "gguf/gguf_files.h"
#include "model/model.h"
#include "model/weights/weight_types.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>

#define GOLDEN KVFERRY_SOURCE_DIR "/tests/golden/"

Test(weight_types, add_up_to_the_bytes_of_the_model)
{
    static const struct {
        const char *folder;
        enum dtype dtype; /* one that it has */
    } CASES[] = {
        {"models/llama_t4", DTYPE_BF16},          {"models/llama_t4_llama3", DTYPE_BF16},
        {"models/qwen3_moe_t4", DTYPE_BF16},      {"models/gpt2_t4", DTYPE_F32},
        {"models/gpt_oss_t4_mxfp4", DTYPE_MXFP4}, {"quantized/gptq", DTYPE_Q4_ZERO},
        {"quantized/int8", DTYPE_Q8_FLOAT},       {"quantized/fp8_blocks", DTYPE_E4M3},
        {"quantized/fp8_whole", DTYPE_E4M3},      {"gguf/blocks.gguf", DTYPE_Q2_K},
        {"gguf/qwen3moe.gguf", DTYPE_F32},
    };
    gguf_files_init();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char path[512];
        struct model *model;
        struct error error = {""};
        struct weight_counts counts;
        uint64_t sum = 0;
        snprintf(path, sizeof path, GOLDEN "%s", CASES[i].folder);
        cr_assert_eq(model_load(path, NULL, &error, &model), STATUS_OK, "%s", error.text);
        const struct model_config *config = model_get_config(model);
        weight_types_count(model_weights(model), config->n_layers,
                           config->experts.routing.n_experts, config->experts.routing.n_experts,
                           &counts);
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_LAST; dtype++)
            sum += counts.bytes[dtype];
        cr_expect_eq(sum, model_weight_bytes(model), "%s: %llu, expected %llu", CASES[i].folder,
                     (unsigned long long)sum, (unsigned long long)model_weight_bytes(model));
        cr_expect(counts.bytes[CASES[i].dtype] > 0, "%s", CASES[i].folder);
        cr_expect(counts.token_bytes > 0 && counts.token_bytes <= sum, "%s", CASES[i].folder);
        model_destroy(model);
    }
}

/* Of the model's bytes less the embeddings: 3 of 8 experts in the layers that have any. */
Test(weight_types, a_token_reads_the_experts_that_it_chooses)
{
    struct model *model;
    struct weight_counts all, chosen, none;
    cr_assert_eq(model_load(GOLDEN "models/qwen3_moe_t4", NULL, NULL, &model), STATUS_OK);
    const struct model_config *config = model_get_config(model);
    const struct weights *weights = model_weights(model);
    cr_assert_eq(config->experts.routing.n_experts, 8);
    weight_types_count(weights, config->n_layers, 8, 8, &all);
    weight_types_count(weights, config->n_layers, 8, 3, &chosen);
    weight_types_count(weights, config->n_layers, 8, 0, &none);
    const uint64_t embedding = 2 * (uint64_t)config->vocabulary * config->hidden;
    cr_expect_eq(all.token_bytes, model_weight_bytes(model) - embedding);
    cr_expect_eq((chosen.token_bytes - none.token_bytes) * 8,
                 (all.token_bytes - none.token_bytes) * 3);
    model_destroy(model);
}

Test(weight_types, a_tied_head_is_read_as_a_head)
{
    struct model *model;
    struct weight_counts counts;
    cr_assert_eq(model_load(DEMO_MODEL, NULL, NULL, &model), STATUS_OK);
    weight_types_count(model_weights(model), model_get_config(model)->n_layers, 0, 0, &counts);
    cr_expect_eq(counts.token_bytes, model_weight_bytes(model));
    model_destroy(model);
}
