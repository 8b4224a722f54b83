/* attention_check: says of every layer what forward_create would say of it. */
#include "model/forward/attention_check.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LAYERS = 8 };

static struct device *host;

/* Contexts of two blocks of 64 tokens. */
static struct forward_options options_of(enum context_math math)
{
    return (struct forward_options){.block_tokens = 64,
                                    .tokens_max = 8,
                                    .sequences_max = 2,
                                    .blocks_max = 2,
                                    .context_math = math,
                                    .device = host};
}

static void open_host(void)
{
    struct error error;
    cr_assert_eq(device_open("cpu", &host, &error), STATUS_OK, "%s", error.text);
}

static void close_host(void)
{
    device_close(host);
}

TestSuite(attention_check, .init = open_host, .fini = close_host);

static struct model *load(const char *folder, uint32_t n_layers)
{
    struct model *model;
    struct error error;
    const struct model_options options = {.device = host, .is_quiet = true};
    cr_assert_eq(model_load(folder, &options, &error, &model), STATUS_OK, "%s", error.text);
    cr_assert_eq(model_get_config(model)->n_layers, n_layers);
    return model;
}

/* Layers 0, 1 and 3 have windows of 9 tokens and a rotation of their own. */
static struct model *windowed_model(void)
{
    return load(GOLDEN_MODELS "/gemma3_t4", 4);
}

static void expect_answers(const struct model *model, const struct forward_options *options,
                           const enum status *expected, const char *sentence)
{
    struct attention_answer answers[LAYERS];
    struct error error;
    struct forward *forward;
    const uint32_t n_layers = model_get_config(model)->n_layers;
    bool is_good = true;
    cr_assert_eq(attention_check(model, options, &error, answers), STATUS_OK, "%s", error.text);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        cr_expect_eq(answers[layer].status, expected[layer], "layer %u: %s", layer,
                     answers[layer].error.text);
        if (answers[layer].status != STATUS_OK)
            cr_expect(strstr(answers[layer].error.text, sentence), "%s", answers[layer].error.text);
        is_good = is_good && answers[layer].status == STATUS_OK;
    }
    cr_expect_eq(attention_check_all(model, options, &error) == STATUS_OK, is_good);
    cr_expect(is_good || strstr(error.text, sentence), "%s", error.text);
    const enum status status = forward_create(model, options, &error, &forward);
    cr_expect_eq(status == STATUS_OK, is_good);
    if (status == STATUS_OK)
        forward_destroy(forward);
    else
        cr_expect(strstr(error.text, sentence), "%s", error.text);
}

Test(attention_check, a_layer_with_a_window_takes_no_int8)
{
    static const enum status ALL[] = {STATUS_OK, STATUS_OK, STATUS_OK, STATUS_OK};
    static const enum status SOME[] = {STATUS_UNSUPPORTED, STATUS_UNSUPPORTED, STATUS_OK,
                                       STATUS_UNSUPPORTED};
    struct model *model = windowed_model();
    for (enum context_math math = 0; math < CONTEXT_MATHS; math++) {
        const struct forward_options options = options_of(math);
        expect_answers(model, &options, context_math_is_int8(math) ? SOME : ALL,
                       "but the window of a layer is 9 of up to 128 tokens: its bits would depend "
                       "on chunks; expected compute, bf16, fp16 or fp8");
    }
    model_destroy(model);
}

Test(attention_check, a_window_of_the_whole_context_hides_nothing)
{
    static const enum status ALL[] = {STATUS_OK, STATUS_OK, STATUS_OK, STATUS_OK};
    static const enum status ONE[] = {STATUS_OK, STATUS_UNSUPPORTED, STATUS_OK, STATUS_OK};
    struct model *model = windowed_model();
    struct model_config *config = (struct model_config *)model_get_config(model);
    const struct forward_options options = options_of(CONTEXT_MATH_INT8);
    config->windows[0] = config->windows[1] = config->windows[3] = 128;
    expect_answers(model, &options, ALL, "");
    config->windows[1] = 127;
    expect_answers(model, &options, ONE, "window of a layer is 127 of up to 128 tokens");
    model_destroy(model);
}

Test(attention_check, rows_that_exclude_each_other_are_named)
{
    static const char *const SENTENCES[] = {
        [PATH_UNFUSED] =
            "attention_math is int8, and attention_path is unfused, which stores scores",
        [PATH_SHORT] = "attention_math is int8, and attention_path is short, which stores scores",
    };
    struct model *model = load(DEMO_MODEL, 5);
    struct forward_options options = options_of(CONTEXT_MATH_INT8);
    for (enum attention_path path = PATH_UNFUSED; path <= PATH_SHORT; path++) {
        struct attention_answer answers[LAYERS];
        struct forward *forward;
        struct error error = {""};
        options.attention.path = path;
        cr_assert_eq(attention_check(model, &options, &error, answers), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, SENTENCES[path]), "%s", error.text);
        cr_assert_eq(forward_create(model, &options, &error, &forward), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, SENTENCES[path]), "%s", error.text);
    }
    model_destroy(model);
}

/* A math of its own, stored scores, and switches that attention over latents does not have. */
Test(attention_check, latents_are_computed_in_one_way)
{
    static const enum status ALL[] = {STATUS_OK, STATUS_OK, STATUS_OK};
    static const enum status NONE[] = {STATUS_UNSUPPORTED, STATUS_UNSUPPORTED, STATUS_UNSUPPORTED};
    struct model *model = load(GOLDEN_MODELS "/deepseek_v3_t4", 3);
    struct forward_options options;
    for (enum context_math math = 0; math < CONTEXT_MATHS; math++) {
        options = options_of(math);
        expect_answers(model, &options, math == CONTEXT_MATH_COMPUTE ? ALL : NONE,
                       "but attention is over latents: expected compute");
    }
    options = options_of(CONTEXT_MATH_COMPUTE);
    options.attention.path = PATH_FLASH;
    expect_answers(model, &options, ALL, "");
    options.attention.path = PATH_UNFUSED;
    expect_answers(model, &options, NONE,
                   "attention_path is unfused, but attention is over latents");
    options.attention = (struct attention_switches){.multi_block = CHOICE_ON};
    expect_answers(model, &options, NONE, "multi_block is on, but attention is over latents");
    options.attention = (struct attention_switches){.grouped = CHOICE_OFF};
    expect_answers(model, &options, NONE, "grouped_query is off, but attention is over latents");
    model_destroy(model);
}

static void expect_refusal(const struct model *model, const struct forward_options *options,
                           const char *sentence)
{
    struct attention_answer answers[LAYERS];
    struct error error;
    cr_expect_eq(attention_check(model, options, &error, answers), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, sentence), "%s", error.text);
}

Test(attention_check, what_no_layer_can_have_is_refused_as_by_forward)
{
    struct model *model = windowed_model();
    struct forward_options options = options_of(CONTEXT_MATH_INT8);
    options.block_tokens = 16;
    expect_refusal(model, &options, "with kv_block_tokens 16: expected 64 or 128");
    options = options_of(CONTEXT_MATH_COMPUTE);
    options.cache_dtype = CACHE_INT8;
    expect_refusal(model, &options, "kv_scales has 0 layers");
    model_destroy(model);
}

Test(attention_check, layers_are_alike_by_window_and_rotation)
{
    struct model *model = windowed_model();
    const struct model_config *config = model_get_config(model);
    cr_expect(attention_check_is_alike(config, 0, 1));
    cr_expect(attention_check_is_alike(config, 0, 3));
    cr_expect_not(attention_check_is_alike(config, 0, 2));
    model_destroy(model);
}
