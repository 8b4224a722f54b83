/* adapter: a model with an adapter beside it has the logits of PEFT, unmerged and merged. */
#include "gguf/gguf_files.h"
#include "model/adapter/adapter.h"
#include "model/adapter/adapter_config.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADAPTERS  KVFERRY_SOURCE_DIR "/tests/golden/adapters"
#define TOLERANCE 1e-4

enum { N_ADAPTERS = 11 };

static const char *const NAMES[N_ADAPTERS] = {
    "llama",         "llama_other",       "llama_deep",   "qwen3_rslora",
    "gpt2_fused",    "phi3_fused",        "neox_groups",  "gemma2_patterns",
    "falcon_one_kv", "mixtral_attention", "gemma4_k_is_v"};

struct golden_adapter {
    char name[32];
};

struct case_of {
    char folder[300], model[300];
    json_t *golden;
    size_t n_tokens; /* of all prompts */
};

static void read_case(struct case_of *c, const char *name)
{
    snprintf(c->folder, sizeof c->folder, "%s/%s", ADAPTERS, name);
    c->golden = golden_json(c->folder, "golden.json");
    snprintf(c->model, sizeof c->model, "%s/%s", GOLDEN_MODELS,
             json_string_value(json_object_get(c->golden, "model")));
    size_t i;
    json_t *prompt;
    c->n_tokens = 0;
    json_array_foreach(json_object_get(c->golden, "prompts"), i, prompt)
        c->n_tokens += json_array_size(prompt);
}

static struct adapter *load(const struct runner *runner, const char *folder)
{
    struct error error = {""};
    struct adapter *adapter = NULL;
    cr_assert_eq(adapter_load(folder, runner->model, NULL, &error, &adapter), STATUS_OK, "%s",
                 error.text);
    return adapter;
}

/* file: golden.f32 or merged.f32. */
static double largest_error(struct runner *runner, const struct case_of *c, const char *file)
{
    float *expected = golden_floats(c->folder, file, c->n_tokens * runner->vocabulary);
    double largest = 0;
    size_t i, at = 0;
    json_t *prompt;
    json_array_foreach(json_object_get(c->golden, "prompts"), i, prompt)
    {
        uint32_t n;
        uint32_t *ids = golden_ids(prompt, &n);
        const double error = runner_largest_error(runner, ids, n,
                                                  expected + at * runner->vocabulary);
        largest = error > largest ? error : largest;
        at += n;
        free(ids);
    }
    free(expected);
    return largest;
}

ParameterizedTestParameters(adapter_golden, logits_are_those_of_peft)
{
    static struct golden_adapter adapters[N_ADAPTERS];
    for (size_t i = 0; i < N_ADAPTERS; i++)
        snprintf(adapters[i].name, sizeof adapters[i].name, "%s", NAMES[i]);
    return cr_make_param_array(struct golden_adapter, adapters, N_ADAPTERS);
}

ParameterizedTest(struct golden_adapter *golden, adapter_golden, logits_are_those_of_peft)
{
    struct case_of c;
    struct runner runner;
    read_case(&c, golden->name);
    runner_open(&runner, c.model,
                (struct runner_options){
                    .block_tokens = 8, .tokens_max = 80, .adapter_rank_max = ADAPTER_RANK_MAX});
    struct adapter *adapter = load(&runner, c.folder);
    runner.adapter = adapter;
    const double beside = largest_error(&runner, &c, "golden.f32");
    const double merged = largest_error(&runner, &c, "merged.f32");
    runner.adapter = NULL;
    const double without = largest_error(&runner, &c, "golden.f32");
    printf("%-18s rank %2u, %2u matrices, %6llu bytes: largest error %.1e, of merged %.1e\n",
           golden->name, adapter_rank(adapter), adapter_matrices(adapter),
           (unsigned long long)adapter_bytes(adapter), beside, merged);
    cr_assert_leq(beside, TOLERANCE, "%s: %g", golden->name, beside);
    cr_assert_leq(merged, TOLERANCE, "%s: %g", golden->name, merged);
    cr_assert_gt(without, 0.1, "%s: the adapter changes nothing", golden->name);
    adapter_release(adapter);
    json_decref(c.golden);
    runner_close(&runner);
}

/* Rounded weights and activations move a logit far more than the adapter's own products do. */
static void check_format(const char *name, enum weight_format weights, double tolerance)
{
    struct case_of c;
    struct runner runner;
    read_case(&c, name);
    runner_open(&runner, c.model,
                (struct runner_options){.block_tokens = 8,
                                        .tokens_max = 80,
                                        .weights = weights,
                                        .adapter_rank_max = ADAPTER_RANK_MAX});
    struct adapter *adapter = load(&runner, c.folder);
    runner.adapter = adapter;
    const double error = largest_error(&runner, &c, "golden.f32");
    printf("%-18s weights %d: largest error %.2f\n", name, (int)weights, error);
    cr_assert_leq(error, tolerance, "%s: %g", name, error);
    adapter_release(adapter);
    json_decref(c.golden);
    runner_close(&runner);
}

Test(adapter_golden, an_adapter_is_beside_weights_that_are_rounded)
{
    check_format("llama", WEIGHTS_INT8, 0.5);
    check_format("phi3_fused", WEIGHTS_INT8, 0.5);
    check_format("llama", WEIGHTS_Q8, 0.3);
}

Test(adapter_golden, a_digest_tells_adapters_and_models_apart)
{
    static const char *const FOLDERS[] = {"llama", "llama_other", "llama_deep"};
    struct hash128 digests[4];
    for (int i = 0; i < 4; i++) {
        struct case_of c;
        struct runner runner;
        read_case(&c, FOLDERS[i % 3]);
        runner_open(&runner, c.model, (struct runner_options){.tokens_max = 80});
        struct adapter *adapter = load(&runner, c.folder);
        digests[i] = adapter_digest(adapter);
        adapter_release(adapter);
        json_decref(c.golden);
        runner_close(&runner);
    }
    cr_assert(hash128_equal(digests[0], digests[3]));
    for (int i = 0; i < 3; i++)
        cr_assert_not(hash128_equal(digests[i], digests[(i + 1) % 3]));
}

Test(adapter_golden, limits_are_kept)
{
    struct case_of c;
    struct runner runner;
    struct error error = {""};
    struct adapter *adapter = NULL;
    read_case(&c, "llama_deep");
    runner_open(&runner, c.model, (struct runner_options){.tokens_max = 80});
    cr_assert_eq(adapter_load(c.folder, runner.model, &(struct adapter_limits){.rank_max = 15},
                              &error, &adapter),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "rank 16, at most 15"), "%s", error.text);
    cr_assert_eq(adapter_load(c.folder, runner.model, &(struct adapter_limits){.bytes_max = 100},
                              &error, &adapter),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "there is room for 100"), "%s", error.text);
    json_decref(c.golden);
    runner_close(&runner);
}

/* Families whose products adapters are not added to. */
Test(adapter_golden, other_models_are_refused_by_name)
{
    static const struct {
        const char *model, *word;
    } MODELS[] = {
        {GOLDEN_MODELS "/deepseek_v3_t4", "latents"},
        {GOLDEN_MODELS "/qwen3_5_t5", "recurrent state"},
        {KVFERRY_SOURCE_DIR "/tests/golden/encoders/t5_v1_1", "encoder"},
        {KVFERRY_SOURCE_DIR "/tests/golden/gguf/gemma2.gguf", "GGUF"},
    };
    gguf_files_init();
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct error error = {""};
        struct model *model;
        struct adapter *adapter;
        cr_assert_eq(model_load(MODELS[i].model, NULL, &error, &model), STATUS_OK, "%s",
                     error.text);
        cr_assert_eq(adapter_load(ADAPTERS "/llama", model, NULL, &error, &adapter),
                     STATUS_UNSUPPORTED);
        cr_assert(strstr(error.text, MODELS[i].word), "%s", error.text);
        model_destroy(model);
    }
}
