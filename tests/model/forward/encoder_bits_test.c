/* forward_encode, and steps behind it: the bits of a text and its reply depend on nothing but their own tokens, and memory is as counted. */
#include "device/device.h"
#include "tests/model/support/encoder_golden.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bits_model {
    char name[32];
};

static struct criterion_test_params all_models(void)
{
    static struct bits_model models[ENCODER_MODELS];
    for (size_t i = 0; i < ENCODER_MODELS; i++)
        snprintf(models[i].name, sizeof models[i].name, "%s", encoder_models[i]);
    return cr_make_param_array(struct bits_model, models, ENCODER_MODELS);
}

/* Logits of the second pair with these options. */
static float *logits_with(const struct encoder_golden *golden, struct runner_options options,
                          uint32_t chunk_tokens)
{
    const struct encoder_pair *pair = &golden->pairs[1];
    float *logits = calloc((size_t)pair->n_decoder * golden->vocabulary, sizeof *logits);
    struct runner runner;
    options.n_blocks = 32;
    runner_open(&runner, golden->folder, options);
    encoder_logits(&runner, pair, chunk_tokens, logits);
    runner_close(&runner);
    return logits;
}

ParameterizedTestParameters(encoder_bits, blocks_chunks_and_threads_change_no_bit)
{
    return all_models();
}

ParameterizedTest(struct bits_model *model, encoder_bits, blocks_chunks_and_threads_change_no_bit)
{
    static const struct {
        struct runner_options options;
        uint32_t chunk_tokens;
    } CASES[] = {
        {{.block_tokens = 8}, 0},
        {{.block_tokens = 8}, 1},
        {{.block_tokens = 8}, 8},
        {{.block_tokens = 8}, 24},
        {{.block_tokens = 16, .n_threads = 1}, 16},
        {{.block_tokens = 32, .n_threads = 3}, 32},
        {{.block_tokens = 64, .n_threads = 2}, 0},
        {{.block_tokens = 64, .encoder_tokens_max = 70}, 1},
    };
    struct encoder_golden golden;
    encoder_golden_open(&golden, model->name);
    const size_t bytes = (size_t)golden.pairs[1].n_decoder * golden.vocabulary * sizeof(float);
    for (enum cache_dtype dtype = CACHE_F32; dtype <= CACHE_E4M3; dtype++) {
        float *expected = logits_with(
            &golden, (struct runner_options){.block_tokens = 16, .cache_dtype = dtype}, 0);
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            struct runner_options options = CASES[i].options;
            options.cache_dtype = dtype;
            float *logits = logits_with(&golden, options, CASES[i].chunk_tokens);
            cr_expect_eq(memcmp(logits, expected, bytes), 0, "%s, type %d, case %zu", model->name,
                         (int)dtype, i);
            free(logits);
        }
        free(expected);
    }
    encoder_golden_close(&golden);
}

ParameterizedTestParameters(encoder_bits, company_changes_no_bit)
{
    return all_models();
}

/* The bytes of a sequence's cross blocks, without what lies behind its tokens. */
static void check_cross(const struct runner *runner, const struct runner_sequence *a,
                        const struct runner_sequence *b, const char *name)
{
    const size_t bytes = block_pool_block_bytes(runner->pool);
    cr_assert_eq(a->n_cross_blocks, b->n_cross_blocks);
    for (uint32_t i = 0; i < a->n_cross_blocks; i++)
        cr_expect_eq(memcmp(block_pool_data(runner->pool, a->cross_blocks[i]),
                            block_pool_data(runner->pool, b->cross_blocks[i]), bytes),
                     0, "%s: cross block %u", name, i);
}

/* Three texts at once; then a chunk and two single tokens in one step: as each alone. */
ParameterizedTest(struct bits_model *model, encoder_bits, company_changes_no_bit)
{
    struct encoder_golden golden;
    struct runner runner;
    struct runner_sequence alone[ENCODER_PAIRS], together[ENCODER_PAIRS];
    struct forward_text texts[ENCODER_PAIRS];
    struct forward_sequence step[ENCODER_PAIRS];
    encoder_golden_open(&golden, model->name);
    runner_open(&runner, golden.folder, (struct runner_options){.block_tokens = 8, .n_blocks = 96});
    const size_t n = golden.vocabulary;
    float *expected = calloc(2 * ENCODER_PAIRS * n, sizeof *expected);
    float *logits = expected + ENCODER_PAIRS * n;
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        const struct encoder_pair *pair = &golden.pairs[i];
        runner_begin(&runner, &alone[i], pair->n_decoder);
        runner_encode(&runner, &alone[i], pair->source, pair->n_source);
        runner_begin(&runner, &together[i], pair->n_decoder);
        texts[i] = runner_text(&runner, &together[i], pair->source, pair->n_source);
    }
    cr_assert_eq(forward_encode(runner.forward, texts, ENCODER_PAIRS), STATUS_OK);
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        const struct encoder_pair *pair = &golden.pairs[i];
        const uint32_t n_query = i == 0 ? 16 : 1;
        check_cross(&runner, &alone[i], &together[i], model->name);
        alone[i].prompt_len = together[i].prompt_len = n_query;
        struct forward_sequence next = runner_next(&alone[i], pair->decoder, n_query, true);
        cr_assert_eq(forward_run(runner.forward, &next, 1, i == 0, expected + i * n), STATUS_OK);
        step[i] = runner_next(&together[i], pair->decoder, n_query, true);
    }
    cr_assert_eq(forward_run(runner.forward, step, ENCODER_PAIRS, 1, logits), STATUS_OK);
    cr_expect_eq(memcmp(logits, expected, ENCODER_PAIRS * n * sizeof *logits), 0, "%s",
                 model->name);
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        runner_end(&runner, &alone[i]);
        runner_end(&runner, &together[i]);
    }
    free(expected);
    runner_close(&runner);
    encoder_golden_close(&golden);
}

/* A text in blocks of another place, read by two replies at once; the encoder's next text changes nothing of it. */
Test(encoder_bits, cross_blocks_are_read_by_many_and_written_once)
{
    struct encoder_golden golden;
    struct runner runner;
    struct runner_sequence first, second, other;
    encoder_golden_open(&golden, "t5_v1_1");
    runner_open(&runner, golden.folder, (struct runner_options){.block_tokens = 8, .n_blocks = 96});
    const struct encoder_pair *pair = &golden.pairs[1];
    const size_t n = golden.vocabulary;
    float *logits = calloc(3 * n, sizeof *logits);
    runner_begin(&runner, &first, 8);
    runner_begin(&runner, &second, 8);
    runner_begin(&runner, &other, 8);
    runner_encode(&runner, &first, pair->source, pair->n_source);
    second.cross_blocks = first.cross_blocks;
    second.n_cross_tokens = first.n_cross_tokens;
    second.n_cross_blocks = first.n_cross_blocks;
    runner_decode(&runner, &first, pair->decoder[0], logits);
    runner_encode(&runner, &other, golden.pairs[0].source, golden.pairs[0].n_source);
    runner_decode(&runner, &second, pair->decoder[0], logits + n);
    cr_expect_arr_eq(logits, logits + n, n * sizeof *logits);
    runner_decode(&runner, &other, pair->decoder[0], logits + 2 * n);
    cr_expect_neq(memcmp(logits, logits + 2 * n, n * sizeof *logits), 0, "another text");
    second.cross_blocks = NULL;
    second.n_cross_blocks = 0;
    runner_end(&runner, &first);
    runner_end(&runner, &second);
    runner_end(&runner, &other);
    free(logits);
    runner_close(&runner);
    encoder_golden_close(&golden);
}

/* With an encoder larger than the decoder's step, and the other way round. */
Test(encoder_bits, activation_bytes_are_those_that_are_allocated)
{
    static const uint32_t TOKENS[][2] = {{512, 16}, {16, 512}};
    uint64_t bytes[2];
    for (size_t i = 0; i < 2; i++) {
        struct runner runner;
        runner_open(&runner, GOLDEN_ENCODERS "/bart",
                    (struct runner_options){.encoder_tokens_max = TOKENS[i][0],
                                            .tokens_max = TOKENS[i][1],
                                            .n_blocks = 32,
                                            .sequences_max = 2});
        bytes[i] = device_bytes(runner.device, DEVICE_ACTIVATIONS);
        cr_expect_eq(bytes[i],
                     forward_activation_bytes(runner.model, forward_get_options(runner.forward)));
        cr_expect_eq(forward_text_tokens_max(runner.forward), TOKENS[i][0] < 80 ? 16 : 80);
        cr_expect_eq(forward_warm_up(runner.forward), STATUS_OK);
        runner_close(&runner);
    }
    cr_expect_gt(bytes[0], bytes[1], "scratch K and V of 512 tokens");
}

/* As a worker does it. */
Test(encoder_bits, it_warms_up_before_a_pool_is_attached)
{
    struct runner runner;
    struct error error = {""};
    struct forward *forward;
    runner_open(&runner, GOLDEN_ENCODERS "/t5_v1_1", (struct runner_options){.n_blocks = 32});
    struct forward_options options = *forward_get_options(runner.forward);
    options.tokens_max = 24;
    options.encoder_tokens_max = 100;
    cr_assert_eq(forward_create(runner.model, &options, &error, &forward), STATUS_OK, "%s",
                 error.text);
    cr_expect_eq(forward_text_tokens_max(forward), 100);
    cr_expect_eq(forward_warm_up(forward), STATUS_OK);
    cr_expect_eq(forward_attach(forward, runner.pool, &error), STATUS_OK, "%s", error.text);
    forward_destroy(forward);
    runner_close(&runner);
}

Test(encoder_bits, what_is_not_computed_behind_an_encoder_is_refused_by_name)
{
    static const struct {
        struct forward_options options;
        enum status status;
        const char *words;
    } CASES[] = {
        {{.cache_dtype = CACHE_F32},
         STATUS_INVALID_ARGUMENT,
         "encoder_tokens_max is 0, expected 1"},
        {{.encoder_tokens_max = 1u << 21},
         STATUS_INVALID_ARGUMENT,
         "encoder_tokens_max is 2097152"},
        {{.cache_dtype = CACHE_INT8}, STATUS_INVALID_ARGUMENT, "kv_scales has 0 layers with"},
        {{.context_math = CONTEXT_MATH_BF16}, STATUS_UNSUPPORTED, "attention_math is bf16"},
        {{.attention = {.path = PATH_UNFUSED}},
         STATUS_UNSUPPORTED,
         "attention_path is unfused, but the model has an encoder"},
        {{.attention = {.multi_block = CHOICE_ON}}, STATUS_UNSUPPORTED, "multi_block is on, but"},
        {{.attention = {.grouped = CHOICE_OFF}}, STATUS_UNSUPPORTED, "grouped_query is off, but"},
        {{.sinks = {.sinks = 4, .window = 16}}, STATUS_UNSUPPORTED, "sink_tokens is 4, but"},
    };
    struct runner runner;
    runner_open(&runner, GOLDEN_ENCODERS "/t5_v1_0", (struct runner_options){.n_blocks = 32});
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct forward_options options = CASES[i].options;
        struct error error = {""};
        struct forward *forward;
        options.block_tokens = 16;
        options.tokens_max = 32;
        options.sequences_max = 2;
        options.blocks_max = 8;
        options.device = runner.device;
        cr_expect_eq(forward_create(runner.model, &options, &error, &forward), CASES[i].status,
                     "case %zu: %s", i, error.text);
        cr_expect(strstr(error.text, CASES[i].words), "no \"%s\" in \"%s\"", CASES[i].words,
                  error.text);
    }
    runner_close(&runner);
}
