/* forward_encode, and steps behind it: K, V and logits of Transformers for T5, mT5, UMT5, BART and mBART, and the replies of generate. */
#include "kernels/dtype.h"
#include "model/sampling/forced_tokens.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/encoder_golden.h"
#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

#define TOLERANCE 1e-4

struct golden_model {
    char name[32];
};

static struct criterion_test_params all_models(void)
{
    static struct golden_model models[ENCODER_MODELS];
    for (size_t i = 0; i < ENCODER_MODELS; i++)
        snprintf(models[i].name, sizeof models[i].name, "%s", encoder_models[i]);
    return cr_make_param_array(struct golden_model, models, ENCODER_MODELS);
}

/* Where token t of a layer's K or V is in the cross blocks. */
static const float *place_of(const struct runner *runner, const struct runner_sequence *sequence,
                             const struct encoder_golden *golden, uint32_t row, uint32_t head,
                             uint32_t t)
{
    const uint32_t block_tokens = runner->options.block_tokens;
    const float *block = (const float *)(const void *)block_pool_data(
        runner->pool, sequence->cross_blocks[t / block_tokens]);
    return block +
           (((size_t)row * golden->n_heads + head) * block_tokens + t % block_tokens) * golden->dim;
}

static double largest_cross_error(struct runner *runner, const struct encoder_golden *golden,
                                  const struct encoder_pair *pair)
{
    struct runner_sequence sequence;
    const float *expected = pair->cross;
    double largest = 0;
    runner_begin(runner, &sequence, 1);
    runner_encode(runner, &sequence, pair->source, pair->n_source);
    for (uint32_t row = 0; row < 2 * golden->n_layers; row++)
        for (uint32_t head = 0; head < golden->n_heads; head++)
            for (uint32_t t = 0; t < pair->n_source; t++, expected += golden->dim) {
                const double error = golden_error(place_of(runner, &sequence, golden, row, head, t),
                                                  expected, golden->dim);
                largest = error > largest ? error : largest;
            }
    runner_end(runner, &sequence);
    return largest;
}

ParameterizedTestParameters(encoder_golden, cross_blocks_hold_k_and_v_of_transformers)
{
    return all_models();
}

ParameterizedTest(struct golden_model *model, encoder_golden,
                  cross_blocks_hold_k_and_v_of_transformers)
{
    struct encoder_golden golden;
    encoder_golden_open(&golden, model->name);
    for (uint32_t block_tokens = 8; block_tokens <= 64; block_tokens *= 2) {
        struct runner runner;
        runner_open(&runner, golden.folder,
                    (struct runner_options){.block_tokens = block_tokens, .n_blocks = 32});
        for (size_t i = 0; i < ENCODER_PAIRS; i++) {
            const double error = largest_cross_error(&runner, &golden, &golden.pairs[i]);
            cr_assert_leq(error, TOLERANCE, "%s, text %zu, blocks of %u: %g", model->name, i,
                          block_tokens, error);
        }
        runner_close(&runner);
    }
    encoder_golden_close(&golden);
}

ParameterizedTestParameters(encoder_golden, logits_of_any_chunks_match_transformers)
{
    return all_models();
}

ParameterizedTest(struct golden_model *model, encoder_golden,
                  logits_of_any_chunks_match_transformers)
{
    static const uint32_t CHUNKS[] = {0, 1, 8, 16};
    struct encoder_golden golden;
    struct runner runner;
    double largest = 0;
    encoder_golden_open(&golden, model->name);
    runner_open(&runner, golden.folder, (struct runner_options){.block_tokens = 8, .n_blocks = 32});
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        const struct encoder_pair *pair = &golden.pairs[i];
        const size_t n = (size_t)pair->n_decoder * golden.vocabulary;
        float *logits = calloc(n, sizeof *logits);
        for (size_t c = 0; c < sizeof CHUNKS / sizeof *CHUNKS; c++) {
            encoder_logits(&runner, pair, CHUNKS[c], logits);
            const double error = golden_error(logits, pair->logits, n);
            largest = error > largest ? error : largest;
            cr_assert_leq(error, TOLERANCE, "%s, pair %zu, chunks of %u: %g", model->name, i,
                          CHUNKS[c], error);
        }
        free(logits);
    }
    printf("%-12s largest error %.1e\n", model->name, largest);
    runner_close(&runner);
    encoder_golden_close(&golden);
}

ParameterizedTestParameters(encoder_golden, greedy_replies_are_those_of_generate)
{
    return all_models();
}

static uint32_t next_token(const struct runner *runner, uint32_t n_done, uint32_t n_max,
                           const float *logits)
{
    uint32_t id;
    if (forced_token_find(&model_get_config(runner->model)->encoder, n_done, n_max, &id))
        return id;
    return model_host_kernels(runner->model)->argmax(logits, runner->vocabulary);
}

/* With the tokens that a model forces. */
ParameterizedTest(struct golden_model *model, encoder_golden, greedy_replies_are_those_of_generate)
{
    struct encoder_golden golden;
    struct runner runner;
    encoder_golden_open(&golden, model->name);
    runner_open(&runner, golden.folder,
                (struct runner_options){.block_tokens = 16, .n_blocks = 32});
    float *logits = calloc(golden.vocabulary, sizeof *logits);
    cr_assert_eq(model_get_config(runner.model)->encoder.start_id, golden.start);
    for (size_t i = 0; i < 2; i++) {
        struct runner_sequence sequence;
        uint32_t id = golden.start;
        runner_begin(&runner, &sequence, golden.n_greedy + 1);
        runner_encode(&runner, &sequence, golden.pairs[i].source, golden.pairs[i].n_source);
        for (uint32_t step = 0; step < golden.n_greedy; step++) {
            runner_decode(&runner, &sequence, id, logits);
            id = next_token(&runner, step, golden.n_greedy, logits);
            cr_assert_eq(id, golden.greedy[i][step], "%s, reply %zu, step %u: %u, expected %u",
                         model->name, i, step, id, golden.greedy[i][step]);
        }
        runner_end(&runner, &sequence);
    }
    free(logits);
    runner_close(&runner);
    encoder_golden_close(&golden);
}

ParameterizedTestParameters(encoder_golden, narrow_caches_and_rounded_weights_stay_near)
{
    return all_models();
}

/* The largest error of the logits of the second pair. A token alone has the same bits as in a chunk. */
static double error_with(const struct encoder_golden *golden, struct runner_options options)
{
    const struct encoder_pair *pair = &golden->pairs[1];
    const size_t n = (size_t)pair->n_decoder * golden->vocabulary;
    float *logits = calloc(2 * n, sizeof *logits);
    struct runner runner;
    options.block_tokens = 16;
    options.n_blocks = 32;
    runner_open(&runner, golden->folder, options);
    encoder_logits(&runner, pair, 0, logits);
    encoder_logits(&runner, pair, 1, logits + n);
    const double error = golden_error(logits, pair->logits, n);
    cr_assert_arr_eq(logits, logits + n, n * sizeof *logits, "%s", golden->folder);
    runner_close(&runner);
    free(logits);
    return error;
}

static void check_near(const struct encoder_golden *golden, struct runner_options options,
                       double least, double most)
{
    const double error = error_with(golden, options);
    cr_assert(error >= least && error <= most, "%s, cache %d, weights %d: %g, expected %g .. %g",
              golden->folder, (int)options.cache_dtype, (int)options.weights, error, least, most);
}

/* PyTorch with rows rounded to INT8 is as far from the golden as --weights int8 is. Blocks of 8 bits are about as far; those of 4
 * change these logits, which random weights make, a lot. */
ParameterizedTest(struct golden_model *model, encoder_golden,
                  narrow_caches_and_rounded_weights_stay_near)
{
    struct encoder_golden golden;
    encoder_golden_open(&golden, model->name);
    const double unit = golden.largest_logit, of_int8 = golden.int8_error;
    check_near(&golden, (struct runner_options){.cache_dtype = CACHE_BF16}, 3e-4 * unit,
               4e-2 * unit);
    check_near(&golden, (struct runner_options){.cache_dtype = CACHE_F16}, 3e-5 * unit,
               8e-3 * unit);
    check_near(&golden, (struct runner_options){.weights = WEIGHTS_INT8}, 0.8 * of_int8,
               1.25 * of_int8);
    check_near(&golden, (struct runner_options){.weights = WEIGHTS_Q8}, 0.2 * of_int8,
               1.5 * of_int8);
    check_near(&golden, (struct runner_options){.weights = WEIGHTS_Q4}, of_int8, 2 * unit);
    encoder_golden_close(&golden);
}

/* As version 5 writes config.json; files of the first versions, without the root, or without what Transformers knows by itself. */
Test(encoder_golden, other_spellings_give_the_same_logits)
{
    static const struct {
        const char *name;
        enum broken_what what;
        const char *argument;
    } CASES[] = {
        {"t5_v1_1", CONFIG_SET,
         "{\"tie_word_embeddings\": true, \"scale_decoder_outputs\": false, \"dense_act_fn\": "
         "\"gelu_new\", \"is_gated_act\": true, \"is_decoder\": false}"},
        {"t5_v1_0", CONFIG_SET, "{\"feed_forward_proj\": null, \"tie_word_embeddings\": null}"},
        {"t5_v1_0", TENSOR_COPY, "decoder.embed_tokens.weight=shared.weight"},
        {"t5_v1_0", TENSOR_COPY, "lm_head.weight=shared.weight"},
        {"mt5", CONFIG_SET, "{\"tie_word_embeddings\": true, \"num_decoder_layers\": 2}"},
        {"umt5", CONFIG_SET, "{\"tie_word_embeddings\": true, \"dense_act_fn\": \"silu\"}"},
        {"bart_scaled", TENSOR_STRIP, "model."},
        {"bart_scaled", CONFIG_SET, "{\"num_hidden_layers\": 12, \"encoder_attention_heads\": 4}"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct encoder_golden golden;
        struct broken_folder folder;
        struct runner runner;
        encoder_golden_open(&golden, CASES[i].name);
        broken_folder_make(&folder, golden.folder, CASES[i].what, CASES[i].argument);
        runner_open(&runner, folder.path, (struct runner_options){.n_blocks = 32});
        const struct encoder_pair *pair = &golden.pairs[0];
        const size_t n = (size_t)pair->n_decoder * golden.vocabulary;
        float *logits = calloc(n, sizeof *logits);
        encoder_logits(&runner, pair, 0, logits);
        const double error = golden_error(logits, pair->logits, n);
        cr_expect_leq(error, TOLERANCE, "%s, %s: %g", CASES[i].name, CASES[i].argument, error);
        free(logits);
        runner_close(&runner);
        broken_folder_remove(&folder);
        encoder_golden_close(&golden);
    }
}
