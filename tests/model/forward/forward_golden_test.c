/* forward: the logits of Transformers, for tiny models of every family and for the demo model. */
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/model/support/tiny_models.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

#define DEMO_TOLERANCE 1e-3
#define MARGIN_MIN     1e-3 /* below it, the second best id is as good */
#define SECONDS_MAX    2    /* of all greedy steps */

struct golden_model {
    char name[32];
};

ParameterizedTestParameters(forward, tiny_models_match_transformers)
{
    static struct golden_model models[TINY_MODELS];
    for (size_t i = 0; i < TINY_MODELS; i++)
        snprintf(models[i].name, sizeof models[i].name, "%s", tiny_models[i]);
    return cr_make_param_array(struct golden_model, models, TINY_MODELS);
}

static uint32_t best(const float *logits, uint32_t n)
{
    uint32_t id = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[id])
            id = i;
    return id;
}

/* The greedy steps behind the second prompt. Each is fed the golden's own token, so that all can be judged. */
static void check_steps(struct runner *runner, const char *name, const json_t *golden)
{
    uint32_t n_prompt, n_ids;
    const json_t *prompts = json_object_get(golden, "prompts");
    uint32_t *prompt = golden_ids(json_array_get(prompts, 1), &n_prompt);
    uint32_t *ids = golden_ids(json_object_get(golden, "greedy"), &n_ids);
    float *logits = calloc(runner->vocabulary, sizeof *logits);
    struct runner_sequence sequence;
    cr_assert(n_ids == 64 && logits, "%s", name);
    runner_begin(runner, &sequence, n_prompt + n_ids);
    runner_prefill(runner, &sequence, prompt, n_prompt, 0, logits);
    for (uint32_t i = 0; i < n_ids; i++) {
        const uint32_t id = best(logits, runner->vocabulary);
        const double margin = (double)logits[id] - (double)logits[ids[i]];
        cr_assert_leq(margin, 2 * tiny_tolerance(name), "%s, step %u: %u, expected %u", name, i, id,
                      ids[i]);
        runner_decode(runner, &sequence, ids[i], logits);
    }
    runner_end(runner, &sequence);
    free(logits);
    free(ids);
    free(prompt);
}

/* folder: the model; golden_folder: what Transformers makes of it. */
static void check_tiny(const char *name, const char *folder, const char *golden_folder)
{
    struct runner runner;
    runner_open(&runner, folder, (struct runner_options){.block_tokens = 8, .tokens_max = 80});
    json_t *golden = golden_json(golden_folder, "golden.json");
    json_t *prompts = json_object_get(golden, "prompts");
    size_t n_all = 0, at = 0;
    for (size_t i = 0; i < json_array_size(prompts); i++)
        n_all += json_array_size(json_array_get(prompts, i));
    float *expected = golden_floats(golden_folder, "golden.f32", n_all * runner.vocabulary);

    double largest = 0;
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        uint32_t n;
        uint32_t *ids = golden_ids(json_array_get(prompts, i), &n);
        double error = runner_largest_error(&runner, ids, n, expected + at * runner.vocabulary);
        largest = error > largest ? error : largest;
        at += n;
        free(ids);
    }
    printf("%-22s largest error %.1e\n", name, largest);
    cr_assert_leq(largest, tiny_tolerance(name), "%s: %g", name, largest);
    check_steps(&runner, name, golden);
    free(expected);
    json_decref(golden);
    runner_close(&runner);
}

ParameterizedTest(struct golden_model *model, forward, tiny_models_match_transformers)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, model->name);
    check_tiny(model->name, folder, folder);
}

/* Transformers 5 takes the head of the file, whatever tie_word_embeddings says. */
Test(forward, a_head_of_its_own_is_used_although_the_config_ties_it)
{
    static const char *const UNTIED[] = {"llama_t5_bias", "mistral_t4_window", "qwen2_t4_window",
                                         "qwen3_t5_bias"};
    for (size_t i = 0; i < sizeof UNTIED / sizeof *UNTIED; i++) {
        struct broken_folder tied;
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, UNTIED[i]);
        broken_folder_make(&tied, folder, CONFIG_SET, "{\"tie_word_embeddings\": true}");
        check_tiny(UNTIED[i], tied.path, folder);
        broken_folder_remove(&tied);
    }
}

Test(forward, demo_logits_match_transformers)
{
    struct runner runner;
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.n_threads = 2});
    json_t *golden = golden_json(DEMO_MODEL "/golden", "logits.json"), *entry;
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    size_t i, n_cases = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
    {
        uint32_t n;
        const char *file = json_string_value(json_object_get(entry, "file"));
        uint32_t *ids = golden_ids(json_object_get(entry, "prompt_ids"), &n);
        float *expected = golden_floats(DEMO_MODEL "/golden", file, runner.vocabulary);
        struct runner_sequence sequence;
        runner_begin(&runner, &sequence, n);
        runner_prefill(&runner, &sequence, ids, n, 0, logits);
        double error = golden_error(logits, expected, runner.vocabulary);
        printf("%-30s largest error %.1e\n", file, error);
        cr_assert_leq(error, DEMO_TOLERANCE, "%s: %g", file, error);
        runner_end(&runner, &sequence);
        free(expected);
        free(ids);
        n_cases++;
    }
    cr_assert_eq(n_cases, 4);
    free(logits);
    json_decref(golden);
    runner_close(&runner);
}

struct tally {
    uint32_t n_steps, n_seconds;
};

/* Each step is fed the golden's own token, so that all 64 can be judged. */
static void check_greedy(struct runner *runner, const json_t *entry, struct tally *tally)
{
    uint32_t n_prompt, n_ids, n_second;
    uint32_t *prompt = golden_ids(json_object_get(entry, "prompt_ids"), &n_prompt);
    uint32_t *ids = golden_ids(json_object_get(entry, "ids"), &n_ids);
    uint32_t *second = golden_ids(json_object_get(entry, "second"), &n_second);
    const json_t *margins = json_object_get(entry, "margin");
    float *logits = calloc(runner->vocabulary, sizeof *logits);
    struct runner_sequence sequence;
    cr_assert(n_ids == 64 && n_second == 64 && json_array_size(margins) == 64);

    runner_begin(runner, &sequence, n_prompt + n_ids);
    runner_prefill(runner, &sequence, prompt, n_prompt, 0, logits);
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t id = best(logits, runner->vocabulary);
        if (id != ids[i]) {
            cr_assert_lt(json_number_value(json_array_get(margins, i)), MARGIN_MIN,
                         "%s step %u: %u, expected %u",
                         json_string_value(json_object_get(entry, "name")), i, id, ids[i]);
            cr_assert_eq(id, second[i]);
            tally->n_seconds++;
        }
        tally->n_steps++;
        runner_decode(runner, &sequence, ids[i], logits);
    }
    runner_end(runner, &sequence);
    free(logits);
    free(second);
    free(ids);
    free(prompt);
}

Test(forward, demo_greedy_continuations_match_transformers)
{
    struct runner runner;
    struct tally tally = {0, 0};
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.n_threads = 2});
    json_t *golden = golden_json(DEMO_MODEL "/golden", "greedy.json"), *entry;
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
        check_greedy(&runner, entry, &tally);
    cr_assert_eq(tally.n_steps, 768);
    printf("greedy: %u of %u steps took the second\n", tally.n_seconds, tally.n_steps);
    cr_assert_leq(tally.n_seconds, SECONDS_MAX);
    json_decref(golden);
    runner_close(&runner);
}
