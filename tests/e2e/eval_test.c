/* eval: perplexities of the demo model are those of Transformers; a model against itself differs in nothing; what cannot be
 * evaluated is refused in words. */
#include "support/command.h"
#include "support/model_copy.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT    KVFERRY_SOURCE_DIR "/tests/golden/eval/text.txt"
#define ADAPTER KVFERRY_SOURCE_DIR "/tests/golden/adapters/demo"

TestSuite(eval, .init = command_folder_make, .fini = command_folder_remove);

static json_t *report_of(void)
{
    EXPECT_OK();
    json_t *report = json_loads(last_command.out, 0, NULL);
    cr_assert_not_null(report, "%s", last_command.out);
    return report;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    cr_assert(json_is_number(value), "%s", key);
    return json_number_value(value);
}

static void expect_near(const json_t *report, const json_t *row, const char *key)
{
    const double is = number(report, key), wanted = number(row, key);
    cr_expect_lt(fabs(is / wanted - 1), 1e-6, "%s is %.9g, not %.9g", key, is, wanted);
}

Test(eval, perplexities_are_those_of_transformers)
{
    json_t *expected = json_load_file(KVFERRY_SOURCE_DIR "/tests/golden/eval/expected.json", 0,
                                      NULL);
    json_t *row;
    size_t index;

    cr_assert_eq(json_array_size(json_object_get(expected, "rows")), 4);
    json_array_foreach(json_object_get(expected, "rows"), index, row)
    {
        char window[32], stride[32];
        snprintf(window, sizeof window, "--window-tokens=%d", (int)number(row, "window_tokens"));
        snprintf(stride, sizeof stride, "--stride-tokens=%d", (int)number(row, "stride_tokens"));
        RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, window, stride, "--kv-dtype", "f32",
            "--json");
        json_t *report = report_of();
        cr_expect_eq(number(report, "tokens"), number(row, "tokens"));
        expect_near(report, row, "perplexity");
        expect_near(report, row, "bits_per_byte");
        json_decref(report);
    }
    json_decref(expected);
}

Test(eval, a_model_against_itself_differs_in_nothing)
{
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--against", KVFERRY_DEMO_MODEL, "--json");
    json_t *report = report_of();
    cr_expect_eq(number(report, "perplexity"), number(report, "reference_perplexity"));
    cr_expect_eq(number(report, "same_token"), 1.0);
    cr_expect_eq(number(json_object_get(report, "log_probability_difference"), "max"), 0.0);
    cr_expect_eq(number(json_object_get(report, "divergence"), "max"), 0.0);
    json_decref(report);
}

Test(eval, rounded_weights_are_told_from_the_files)
{
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--weights", "int8", "--against",
        KVFERRY_DEMO_MODEL, "--json");
    json_t *report = report_of();
    const json_t *divergence = json_object_get(report, "divergence");
    cr_expect_neq(number(report, "perplexity"), number(report, "reference_perplexity"));
    cr_expect_gt(number(report, "same_token"), 0.8);
    cr_expect_gt(number(divergence, "mean"), 0.0);
    cr_expect_leq(number(divergence, "mean"), number(divergence, "p99"));
    cr_expect_leq(number(divergence, "p99"), number(divergence, "max"));
    cr_expect_lt(number(divergence, "mean"), 0.1);
    json_decref(report);
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--weights", "int8", "--against",
        KVFERRY_DEMO_MODEL, "--against-weights", "int8", "--json");
    report = report_of();
    cr_expect_eq(number(report, "perplexity"), number(report, "reference_perplexity"));
    json_decref(report);
}

Test(eval, rounded_attention_is_told_from_that_of_the_other_model)
{
    static const char *const MATHS[] = {"fp8", "int8", "int8-pv-fp8"};
    for (int i = 0; i < 3; i++) {
        RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--attention-math", MATHS[i], "--against",
            KVFERRY_DEMO_MODEL, "--json");
        json_t *report = report_of();
        const json_t *divergence = json_object_get(report, "divergence");
        cr_expect_gt(number(divergence, "mean"), 0.0, "%s", MATHS[i]);
        cr_expect_lt(number(divergence, "mean"), 0.02, "%s", MATHS[i]);
        cr_expect_gt(number(report, "same_token"), 0.9, "%s", MATHS[i]);
        json_decref(report);
    }
}

Test(eval, lines_are_for_people)
{
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--tokens-max", "100", "--against",
        KVFERRY_DEMO_MODEL);
    EXPECT_OK();
    EXPECT_IN(last_command.out, "tokens          100 predicted\n");
    EXPECT_IN(last_command.out, "\nperplexity      ");
    EXPECT_IN(last_command.out, " of the other model: +0.00 %\n");
    EXPECT_IN(last_command.out, "same token      100.00 %");
    EXPECT_IN(last_command.out, "kv              bf16\n");
}

/* What the adapter adds is told from the model alone; tests/model/adapter compares logits with PEFT's. */
Test(eval, an_adapter_is_beside_the_model)
{
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--adapter", ADAPTER, "--against",
        KVFERRY_DEMO_MODEL, "--json");
    json_t *report = report_of();
    cr_expect_gt(number(report, "perplexity"), number(report, "reference_perplexity"));
    cr_expect_gt(number(json_object_get(report, "divergence"), "mean"), 0.1);
    json_decref(report);
}

static void expect_no_result(const char *sentence)
{
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE, "%d: %s", last_command.exit_status,
                 sentence);
    EXPECT_IN(last_command.err, sentence);
    cr_expect_str_empty(last_command.out);
}

static const char *file_of(const char *name, const char *bytes, size_t n_bytes)
{
    static char path[160];
    snprintf(path, sizeof path, "%s", in_folder(name));
    write_file(path, bytes, n_bytes);
    return path;
}

Test(eval, what_cannot_be_evaluated_is_refused)
{
    RUN("eval", KVFERRY_DEMO_MODEL);
    expect_no_result(
        "INVALID_ARGUMENT: text is not set: which file shall be predicted? (--text FILE)");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", in_folder("none.txt"));
    expect_no_result("NOT_FOUND");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", file_of("bad.txt", "a\xff", 2));
    expect_no_result("INVALID_ARGUMENT: text is not UTF-8 at byte 1");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", file_of("empty.txt", "", 0));
    expect_no_result("has 0 tokens, which is too few to predict one");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--window-tokens", "4096");
    expect_no_result("window_tokens is 4096, the context of ");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--stride-tokens", "512");
    expect_no_result("stride_tokens is 512, it must be below window_tokens, which is 512");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--device", "tpu");
    expect_no_result("tpu");
    RUN("eval", in_folder("no-model"), "--text", TEXT);
    expect_no_result("NOT_FOUND");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--adapter", in_folder("no-adapter"));
    expect_no_result("NOT_FOUND: adapter ");
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--adapter",
        KVFERRY_SOURCE_DIR "/tests/golden/adapters/llama");
    expect_no_result("lora_A.weight has shape [4, 32] (2 dimensions), expected [4, 256]");
}

/* The other model's tokenizer has a character less. */
Test(eval, models_whose_tokenizers_differ_are_not_compared)
{
    model_copy_make();
    json_t *document = json_load_file(in_folder("model/tokenizer.json"), JSON_ALLOW_NUL, NULL);
    cr_assert_not_null(document);
    json_object_set_new(document, "normalizer", json_pack("{s:s}", "type", "Lowercase"));
    char *text = json_dumps(document, 0);
    file_of("model/tokenizer.json", text, strlen(text));
    RUN("eval", KVFERRY_DEMO_MODEL, "--text", TEXT, "--against", in_folder("model"));
    expect_no_result("gives this text other tokens than that of ");
    free(text);
    json_decref(document);
}
