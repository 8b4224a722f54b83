/* prompts whose attention multiplies BF16 or FP16: what follows them hardly changes, chunks change no bit. */
#include "kernels/kernels.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 1200, NEXT = 300 };

static void open_demo(struct runner *runner, enum context_math math)
{
    runner_open(
        runner, DEMO_MODEL,
        (struct runner_options){.n_threads = 2, .cache_dtype = CACHE_BF16, .context_math = math});
}

/* The longest text of the goldens: 1,900 tokens that the model was not trained on. */
static uint32_t *held_out_text(void)
{
    json_t *golden = golden_json(DEMO_MODEL "/golden", "logits.json"), *entry;
    uint32_t *ids = NULL, n = 0;
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
    {
        if (strstr(json_string_value(json_object_get(entry, "file")), "held_out"))
            ids = golden_ids(json_object_get(entry, "prompt_ids"), &n);
    }
    json_decref(golden);
    cr_assert(ids);
    cr_assert_geq(n, PROMPT + NEXT);
    return ids;
}

#ifndef KVFERRY_SANITIZED /* a result, of code that the test below runs, too */
/* Of the NEXT tokens behind a prompt of PROMPT; greedy_out: the token that each would have been. */
static double perplexity(enum context_math math, const uint32_t *ids, uint32_t *greedy_out)
{
    struct runner runner;
    struct runner_sequence sequence;
    const struct kernels *kernels;
    double sum = 0;
    open_demo(&runner, math);
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    runner_begin(&runner, &sequence, PROMPT + NEXT);
    runner_prefill(&runner, &sequence, ids, PROMPT, 512, logits);
    for (uint32_t i = PROMPT; i < PROMPT + NEXT; i++) {
        sum += (double)(kernels->log_sum_exp(logits, runner.vocabulary) - logits[ids[i]]);
        greedy_out[i - PROMPT] = kernels->argmax(logits, runner.vocabulary);
        runner_decode(&runner, &sequence, ids[i], logits);
    }
    runner_end(&runner, &sequence);
    runner_close(&runner);
    free(logits);
    return exp(sum / NEXT);
}

Test(context_math, rounding_hardly_changes_perplexity_or_greedy_tokens)
{
    static const char *const names[] = {"float32", "BF16", "FP16"};
    uint32_t exact_tokens[NEXT], tokens[NEXT];
    uint32_t *ids = held_out_text();
    double exact = perplexity(CONTEXT_MATH_COMPUTE, ids, exact_tokens);
    for (enum context_math math = CONTEXT_MATH_BF16; math <= CONTEXT_MATH_FP16; math++) {
        uint32_t n_other = 0;
        double rounded = perplexity(math, ids, tokens);
        for (uint32_t i = 0; i < NEXT; i++)
            n_other += tokens[i] != exact_tokens[i];
        printf("perplexity behind a prompt of %u: %.4f, attention in %s %+.4f %%, %u of %u tokens "
               "other\n",
               PROMPT, exact, names[math], 100 * (rounded / exact - 1), n_other, NEXT);
        cr_assert_lt(fabs(rounded / exact - 1), 0.005);
        cr_assert_neq(rounded, exact);
        cr_assert_leq(n_other, NEXT / 50);
    }
    free(ids);
}
#endif

static void check_chunks(enum context_math math)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t *ids = held_out_text();
    open_demo(&runner, math);
    float *whole = calloc(2 * (size_t)runner.vocabulary, sizeof *whole);
    float *chunked = whole + runner.vocabulary;
    runner_begin(&runner, &sequence, PROMPT);
    runner_prefill(&runner, &sequence, ids, PROMPT, 0, whole);
    runner_end(&runner, &sequence);
    for (uint32_t chunk = 16; chunk <= 512; chunk *= 4) {
        runner_begin(&runner, &sequence, PROMPT);
        runner_prefill(&runner, &sequence, ids, PROMPT, chunk, chunked);
        runner_end(&runner, &sequence);
        cr_assert_arr_eq(whole, chunked, runner.vocabulary * sizeof *whole, "chunks of %u", chunk);
    }
    runner_close(&runner);
    free(whole);
    free(ids);
}

Test(context_math, a_prompt_in_chunks_has_the_bits_of_a_whole_one)
{
    check_chunks(CONTEXT_MATH_BF16);
    check_chunks(CONTEXT_MATH_FP16);
}
