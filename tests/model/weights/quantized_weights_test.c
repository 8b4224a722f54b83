/* INT8 weights: what they cost in perplexity on the demo model's own text, that a token's bits depend on
 * nothing but its past, and that no KV crosses between formats. */
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/weights/weights.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/model/support/tiny_models.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_FORMATS = 5 };

static void open_demo(struct runner *runner, enum weight_format weights)
{
    runner_open(runner, DEMO_MODEL, (struct runner_options){.n_threads = 2, .weights = weights});
}

/* The longest text of the goldens: 1,900 tokens that the model was not trained on. */
static uint32_t *held_out_text(uint32_t *n_out)
{
    json_t *golden = golden_json(DEMO_MODEL "/golden", "logits.json"), *entry;
    uint32_t *ids = NULL;
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
    {
        if (strstr(json_string_value(json_object_get(entry, "file")), "held_out"))
            ids = golden_ids(json_object_get(entry, "prompt_ids"), n_out);
    }
    json_decref(golden);
    cr_assert(ids);
    return ids;
}

#ifndef KVFERRY_SANITIZED /* a result, of code that the test below runs, too */
static const char *const FORMATS[] = {"as the file has them", "int8", "int8-group32", "q8", "q4"};

static double perplexity(enum weight_format weights, const uint32_t *ids, uint32_t n)
{
    struct runner runner;
    struct runner_sequence sequence;
    const struct kernels *kernels;
    open_demo(&runner, weights);
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    double sum = 0;
    runner_begin(&runner, &sequence, n);
    for (uint32_t i = 0; i + 1 < n; i++) {
        runner_decode(&runner, &sequence, ids[i], logits);
        sum += (double)(kernels->log_sum_exp(logits, runner.vocabulary) - logits[ids[i + 1]]);
    }
    runner_end(&runner, &sequence);
    runner_close(&runner);
    free(logits);
    return exp(sum / (n - 1));
}

Test(quantized_weights, perplexity_of_the_demo_model_hardly_changes)
{
    uint32_t n;
    uint32_t *ids = held_out_text(&n);
    double exact = perplexity(WEIGHTS_AUTO, ids, n);
    printf("perplexity over %u tokens: %.4f\n", n, exact);
    for (int format = WEIGHTS_INT8; format < N_FORMATS; format++) {
        double rounded = perplexity((enum weight_format)format, ids, n);
        double change = rounded / exact - 1;
        printf("    %-12s %.4f, %+.3f %%\n", FORMATS[format], rounded, 100 * change);
        cr_assert_lt(fabs(change), format == WEIGHTS_Q4 ? 0.04 : 0.01, "%s", FORMATS[format]);
        cr_assert_neq(rounded, exact);
    }
    free(ids);
}
#endif

/* The matrices of experts are rounded too, but for those that are of 4 bits already; what is fused or transposed in the files
 * is rounded as it is used. */
Test(quantized_weights, every_family_keeps_its_logits)
{
    enum { N_TOKENS = 40, WIDTH = 96 };
    static float exact[WIDTH], rounded[WIDTH];
    uint32_t ids[N_TOKENS];
    for (uint32_t i = 0; i < N_TOKENS; i++)
        ids[i] = (i * 29 + 5) % WIDTH;
    for (size_t m = 0; m < TINY_MODELS; m++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, tiny_models[m]);
        for (int w = 0; w < 2; w++) {
            struct runner runner;
            struct runner_sequence sequence;
            const enum weight_format format = m % 2 == 0 ? WEIGHTS_INT8 : WEIGHTS_Q8;
            runner_open(&runner, folder,
                        (struct runner_options){.block_tokens = 8,
                                                .tokens_max = 48,
                                                .weights = w == 0 ? WEIGHTS_AUTO : format});
            runner_begin(&runner, &sequence, N_TOKENS);
            runner_prefill(&runner, &sequence, ids, N_TOKENS, 0, w == 0 ? exact : rounded);
            runner_end(&runner, &sequence);
            runner_close(&runner);
        }
        double squares = 0, errors = 0;
        for (uint32_t i = 0; i < WIDTH; i++) {
            squares += (double)exact[i] * (double)exact[i];
            errors += ((double)exact[i] - (double)rounded[i]) *
                      ((double)exact[i] - (double)rounded[i]);
        }
        const double share = sqrt(errors / squares);
        printf("%-22s error %.4f of the logits\n", tiny_models[m], share);
        cr_expect(share > 0 && share < 0.2, "%s: %g", tiny_models[m], share);
    }
}

Test(quantized_weights, a_prompt_at_once_in_chunks_or_token_by_token_has_the_same_bits)
{
    uint32_t n;
    uint32_t *ids = held_out_text(&n);
    n = 150;
    for (int format = WEIGHTS_INT8; format < N_FORMATS; format++) {
        struct runner runner;
        struct runner_sequence whole, chunks, single;
        open_demo(&runner, (enum weight_format)format);
        float *logits = calloc(3 * (size_t)runner.vocabulary, sizeof *logits);
        float *chunked = logits + runner.vocabulary, *decoded = chunked + runner.vocabulary;
        runner_begin(&runner, &whole, n);
        runner_prefill(&runner, &whole, ids, n, 0, logits);
        runner_end(&runner, &whole);
        runner_begin(&runner, &chunks, n);
        runner_prefill(&runner, &chunks, ids, n, 16, chunked);
        runner_end(&runner, &chunks);
        runner_begin(&runner, &single, n);
        for (uint32_t i = 0; i < n; i++)
            runner_decode(&runner, &single, ids[i], decoded);
        runner_end(&runner, &single);
        cr_assert_arr_eq(logits, chunked, runner.vocabulary * sizeof *logits);
        cr_assert_arr_eq(logits, decoded, runner.vocabulary * sizeof *logits);
        free(logits);
        runner_close(&runner);
    }
    free(ids);
}

struct seen {
    uint64_t done, all;
    uint32_t n_calls;
};

static void see(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct seen *seen = arg;
    cr_assert_geq(bytes_done, seen->done);
    cr_assert_leq(bytes_done, bytes_all);
    cr_assert(seen->all == 0 || seen->all == bytes_all);
    *seen = (struct seen){bytes_done, bytes_all, seen->n_calls + 1};
}

Test(quantized_weights, every_format_has_a_digest_of_its_own_and_fewer_bytes)
{
    uint64_t digests[N_FORMATS][2], bytes[N_FORMATS];
    for (int format = WEIGHTS_AUTO; format < N_FORMATS; format++) {
        struct seen seen = {0};
        struct model_options options = {
            .weights = (enum weight_format)format, .on_progress = see, .arg = &seen};
        struct model *model;
        cr_assert_eq(model_load(DEMO_MODEL, &options, NULL, &model), STATUS_OK);
        cr_assert_eq(seen.done, seen.all);
        model_digest(model, digests[format]);
        bytes[format] = model_weight_bytes(model);
        model_destroy(model);
    }
    for (int a = 0; a < N_FORMATS; a++)
        for (int b = 0; b < a; b++)
            cr_assert_arr_neq(digests[a], digests[b], sizeof digests[a]);
    /* From 16 bits to 8, and the tied head stands beside the embedding. */
    cr_assert_lt(bytes[WEIGHTS_INT8], bytes[WEIGHTS_INT8_GROUP32]);
    cr_assert_lt(bytes[WEIGHTS_INT8_GROUP32], bytes[WEIGHTS_AUTO]);
    cr_assert_lt(bytes[WEIGHTS_Q8], bytes[WEIGHTS_INT8_GROUP32]);
    cr_assert_lt(bytes[WEIGHTS_Q4], bytes[WEIGHTS_INT8]);
}

static void assert_same_tensor(const struct kernels *kernels, const struct tensor *one,
                               const struct tensor *two)
{
    struct gemm gemm = {.w_dtype = DTYPE_INT8,
                        .w_scale_rows = 1,
                        .w_scale_columns = one->scale_columns,
                        .n_in = one->n_in,
                        .n_out = one->n_out};
    const bool is_blocks = dtype_is_blocks(one->dtype);
    cr_assert(one->dtype == two->dtype && one->is_packed == !is_blocks &&
              two->is_packed == !is_blocks);
    cr_assert_neq(one->data, two->data);
    cr_assert_arr_eq(one->data, two->data,
                     is_blocks ? dtype_array_bytes(one->dtype, (size_t)one->n_out * one->n_in)
                               : kernels->gemm_packed_bytes(&gemm));
}

Test(quantized_weights, threads_make_the_bytes_that_one_makes)
{
    const struct kernels *kernels;
    struct thread_pool *pool;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (int format = WEIGHTS_INT8; kernels->gemm_pack && format < N_FORMATS; format++) {
        struct model_options options = {.weights = (enum weight_format)format};
        struct model *one, *two;
        cr_assert_eq(model_load(DEMO_MODEL, &options, NULL, &one), STATUS_OK);
        options.threads = pool;
        cr_assert_eq(model_load(DEMO_MODEL, &options, NULL, &two), STATUS_OK);
        const struct weights *a = model_weights(one), *b = model_weights(two);
        assert_same_tensor(kernels, &a->head, &b->head);
        for (uint32_t l = 0; l < model_get_config(one)->n_layers; l++) {
            assert_same_tensor(kernels, &a->layers[l].q, &b->layers[l].q);
            assert_same_tensor(kernels, &a->layers[l].o, &b->layers[l].o);
            assert_same_tensor(kernels, &a->layers[l].down, &b->layers[l].down);
        }
        model_destroy(one);
        model_destroy(two);
    }
    thread_pool_destroy(pool);
}
