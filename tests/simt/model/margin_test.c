/* Greedy tokens of the demo model in BF16 on a device are the CPU's in float32 wherever the CPU's margin, of the best logit above
 * the second, is more than twice the stated tolerance (rows.h); nothing is promised of the other rows.
 *
 * The CPU decodes greedily and the device is fed the CPU's tokens, so that one row that differs does not make the next ones
 * another text. The tolerance is a part of the row's largest logit, and held to in every row; what is printed is measured.
 */
#include "base/random.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/simt/model/rows.h"
#include "tests/simt/simt_device.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT_MAX = 48, TOKENS_MAX = 80, DEMO_SPECIAL = 2046 };

struct prompt {
    const char *text; /* NULL: n_random tokens of that seed, as tests/e2e has them */
    uint64_t seed;
    uint32_t n_random;
    uint32_t n_tokens; /* that are decoded */
    bool is_shown;     /* elsewhere, as the CPU's tokens: every row has a margin */
};

static const struct prompt PROMPTS[] = {
    {.text = "Thus saith the LORD of", .n_tokens = 13, .is_shown = true}, /* cli/demo.sh */
    {.seed = 1000, .n_random = 18, .n_tokens = 4, .is_shown = true},      /* e2e/double_test.c */
    {.seed = 1002, .n_random = 25, .n_tokens = 4, .is_shown = true},
    {.text = "In the beginning", .n_tokens = 32},
    {.text = "And the LORD spake unto Moses,", .n_tokens = 12},
    {.text = "", .n_tokens = 20},
};

/* Both back ends, each with a pool of its own. */
struct pair {
    struct tokenizer *tokenizer;
    struct device *device;
    struct runner cpu, gpu;
    float *expected, *logits; /* [vocabulary] */
    double tolerance;         /* of the row's largest logit */
};

/* With INT8 weights a host rounds activations to eight bits, too, and a device does not: what was measured is 5.0e-2. */
#define INT8_TOLERANCE 6e-2

/* Of one prompt, or of all. Errors are of the row's largest logit, margins too. */
struct measured {
    uint32_t n_rows, n_judged, n_differ;
    double largest_error, absolute_error;
    double smallest_margin;                 /* of all rows */
    double smallest_differ, largest_differ; /* margins where the tokens differ */
};

static void pair_open(struct pair *pair, enum weight_format weights)
{
    struct error error = {""};
    *pair = (struct pair){.device = simt_device_open(&(struct simt_options){0}),
                          .tolerance = weights == WEIGHTS_AUTO ? ROWS_TOLERANCE : INT8_TOLERANCE};
    cr_assert_eq(tokenizer_load(DEMO_MODEL, &error, &pair->tokenizer), STATUS_OK, "%s", error.text);
    struct runner_options options = {
        .tokens_max = TOKENS_MAX, .cache_dtype = CACHE_F32, .weights = weights};
    runner_open(&pair->cpu, DEMO_MODEL, options);
    options.device = pair->device;
    options.cache_dtype = CACHE_BF16;
    runner_open(&pair->gpu, DEMO_MODEL, options);
    pair->expected = calloc(pair->cpu.vocabulary, sizeof(float));
    pair->logits = calloc(pair->cpu.vocabulary, sizeof(float));
    cr_assert(pair->expected && pair->logits);
}

static void pair_close(struct pair *pair)
{
    free(pair->logits);
    free(pair->expected);
    runner_close(&pair->gpu);
    runner_close(&pair->cpu);
    device_close(pair->device);
    tokenizer_destroy(pair->tokenizer);
}

static uint32_t prompt_ids(const struct pair *pair, const struct prompt *prompt,
                           uint32_t ids_out[PROMPT_MAX])
{
    if (!prompt->text) {
        struct random random;
        random_init(&random, prompt->seed);
        for (uint32_t i = 0; i < prompt->n_random; i++)
            ids_out[i] = (uint32_t)random_below(&random, DEMO_SPECIAL);
        return prompt->n_random;
    }
    struct encode_input input = {
        .text = prompt->text, .text_bytes = strlen(prompt->text), .add_special = true};
    struct token_buffer ids = {.ids = ids_out, .ids_max = PROMPT_MAX};
    struct error error = {""};
    cr_assert_eq(tokenizer_encode(pair->tokenizer, &input, &ids, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert(ids.n_ids > 0 && ids.n_ids <= PROMPT_MAX);
    return (uint32_t)ids.n_ids;
}

/* Of a row, expected and logits as they stand. */
static void judge(const struct pair *pair, bool is_shown, struct measured *measured)
{
    const uint32_t n = pair->cpu.vocabulary;
    const double unit = rows_largest(pair->expected, n);
    const double absolute = golden_error(pair->logits, pair->expected, n);
    const double margin = rows_margin(pair->expected, n) / unit;
    const bool is_same = rows_best(pair->logits, n) == rows_best(pair->expected, n);
    measured->n_rows++;
    measured->absolute_error = fmax(measured->absolute_error, absolute);
    measured->largest_error = fmax(measured->largest_error, absolute / unit);
    measured->smallest_margin = fmin(measured->smallest_margin, margin);
    cr_expect(!is_shown || pair->tolerance != ROWS_TOLERANCE || margin > 2 * ROWS_TOLERANCE,
              "row %u: margin %.1e", measured->n_rows, margin);
    if (is_shown || margin > 2 * pair->tolerance) {
        measured->n_judged++;
        cr_expect(is_same, "row %u: margin %.1e", measured->n_rows, margin);
    }
    if (!is_same) {
        measured->n_differ++;
        measured->smallest_differ = fmin(measured->smallest_differ, margin);
        measured->largest_differ = fmax(measured->largest_differ, margin);
    }
    cr_expect_leq(absolute / unit, pair->tolerance, "row %u: %g", measured->n_rows,
                  absolute / unit);
}

static struct measured measure(struct pair *pair, const struct prompt *prompt)
{
    struct measured measured = {.smallest_margin = INFINITY, .smallest_differ = INFINITY};
    struct runner_sequence on_cpu, on_gpu;
    uint32_t ids[PROMPT_MAX];
    const uint32_t n = prompt_ids(pair, prompt, ids);
    runner_begin(&pair->cpu, &on_cpu, n + prompt->n_tokens);
    runner_begin(&pair->gpu, &on_gpu, n + prompt->n_tokens);
    runner_prefill(&pair->cpu, &on_cpu, ids, n, 0, pair->expected);
    runner_prefill(&pair->gpu, &on_gpu, ids, n, 0, pair->logits);
    judge(pair, prompt->is_shown, &measured);
    while (measured.n_rows < prompt->n_tokens) {
        const uint32_t token = rows_best(pair->expected, pair->cpu.vocabulary);
        runner_decode(&pair->cpu, &on_cpu, token, pair->expected);
        runner_decode(&pair->gpu, &on_gpu, token, pair->logits);
        judge(pair, prompt->is_shown, &measured);
    }
    runner_end(&pair->gpu, &on_gpu);
    runner_end(&pair->cpu, &on_cpu);
    return measured;
}

static void add(struct measured *all, const struct measured *one)
{
    all->n_rows += one->n_rows;
    all->n_judged += one->n_judged;
    all->n_differ += one->n_differ;
    all->largest_error = fmax(all->largest_error, one->largest_error);
    all->absolute_error = fmax(all->absolute_error, one->absolute_error);
    all->smallest_margin = fmin(all->smallest_margin, one->smallest_margin);
    all->smallest_differ = fmin(all->smallest_differ, one->smallest_differ);
    all->largest_differ = fmax(all->largest_differ, one->largest_differ);
}

static void print(const char *name, const struct measured *measured)
{
    printf("%-32.30s %3u rows, %3u with a margin; worst error %.1e of the largest logit (%.1e); "
           "smallest margin %.1e; ",
           name, measured->n_rows, measured->n_judged, measured->largest_error,
           measured->absolute_error, measured->smallest_margin);
    if (measured->n_differ)
        printf("%u differ, at margins of %.1e to %.1e\n", measured->n_differ,
               measured->smallest_differ, measured->largest_differ);
    else
        printf("none differs\n");
}

static void measure_all(enum weight_format weights, size_t n_prompts)
{
    struct pair pair;
    struct measured all = {.smallest_margin = INFINITY, .smallest_differ = INFINITY};
    pair_open(&pair, weights);
    for (size_t i = 0; i < n_prompts; i++) {
        char name[32];
        const struct prompt *prompt = &PROMPTS[i];
        snprintf(name, sizeof name, "seed %u, %u tokens", (unsigned)prompt->seed, prompt->n_random);
        struct measured one = measure(&pair, prompt);
        print(prompt->text ? prompt->text : name, &one);
        add(&all, &one);
    }
    print("all", &all);
    cr_expect_gt(all.n_judged, 0);
    pair_close(&pair);
}

Test(simt_margin, tokens_are_the_cpus_where_its_margin_is_above_the_tolerance)
{
    measure_all(WEIGHTS_AUTO, sizeof PROMPTS / sizeof *PROMPTS);
}

/* Of those that are shown, whose tokens are the same with less of a margin. */
Test(simt_margin, the_same_of_weights_rounded_to_int8)
{
    measure_all(WEIGHTS_INT8, 3);
}
