#include "tests/model/support/encoder_golden.h"

#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t number(const json_t *golden, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(golden, key));
}

static size_t cross_size(const struct encoder_golden *golden, const struct encoder_pair *pair)
{
    return (size_t)golden->n_layers * 2 * golden->n_heads * pair->n_source * golden->dim;
}

static size_t logits_size(const struct encoder_golden *golden, const struct encoder_pair *pair)
{
    return (size_t)pair->n_decoder * golden->vocabulary;
}

void encoder_golden_open(struct encoder_golden *golden, const char *name)
{
    *golden = (struct encoder_golden){.n_layers = 0};
    snprintf(golden->folder, sizeof golden->folder, "%s/%s", GOLDEN_ENCODERS, name);
    json_t *json = golden_json(golden->folder, "golden.json");
    const json_t *pairs = json_object_get(json, "pairs"), *greedy = json_object_get(json, "greedy");
    size_t n = 0, at = 0;
    golden->n_layers = number(json, "layers");
    golden->n_heads = number(json, "heads");
    golden->dim = number(json, "head_dim");
    golden->vocabulary = number(json, "vocabulary");
    golden->start = number(json, "start");
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        struct encoder_pair *pair = &golden->pairs[i];
        const json_t *of_pair = json_array_get(pairs, i);
        pair->source = golden_ids(json_object_get(of_pair, "source"), &pair->n_source);
        pair->decoder = golden_ids(json_object_get(of_pair, "decoder"), &pair->n_decoder);
        cr_assert(pair->n_source >= 1 && pair->n_source <= ENCODER_PAIR_TOKENS);
        n += cross_size(golden, pair) + logits_size(golden, pair);
    }
    golden->floats = golden_floats(golden->folder, "golden.f32", n);
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        struct encoder_pair *pair = &golden->pairs[i];
        pair->cross = golden->floats + at;
        at += cross_size(golden, pair);
        pair->logits = golden->floats + at;
        at += logits_size(golden, pair);
    }
    golden->int8_error = json_real_value(json_object_get(json, "int8_error"));
    for (size_t i = 0; i < logits_size(golden, &golden->pairs[1]); i++)
        golden->largest_logit = fmax(golden->largest_logit,
                                     fabs((double)golden->pairs[1].logits[i]));
    for (size_t i = 0; i < 2; i++)
        golden->greedy[i] = golden_ids(json_array_get(greedy, i), &golden->n_greedy);
    cr_assert_eq(golden->n_greedy, 40);
    json_decref(json);
}

void encoder_golden_close(struct encoder_golden *golden)
{
    for (size_t i = 0; i < ENCODER_PAIRS; i++) {
        free(golden->pairs[i].source);
        free(golden->pairs[i].decoder);
    }
    free(golden->greedy[0]);
    free(golden->greedy[1]);
    free(golden->floats);
}

/* One chunk, with the logits of all its rows. */
static void chunk_logits(struct runner *runner, struct runner_sequence *sequence,
                         const uint32_t *ids, uint32_t n, float *logits_out)
{
    float *last = calloc(runner->vocabulary, sizeof *last);
    struct forward_sequence next = runner_next(sequence, ids, n, true);
    next.keeps_rows = true;
    cr_assert_eq(forward_run(runner->forward, &next, 1, 1, last), STATUS_OK);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(forward_rows(runner->forward, i, 1, logits_out + i * runner->vocabulary),
                     STATUS_OK);
    cr_assert_arr_eq(last, logits_out + (n - 1) * runner->vocabulary,
                     runner->vocabulary * sizeof *last);
    free(last);
}

void encoder_logits(struct runner *runner, const struct encoder_pair *pair, uint32_t chunk_tokens,
                    float *logits_out)
{
    struct runner_sequence sequence;
    runner_begin(runner, &sequence, pair->n_decoder);
    runner_encode(runner, &sequence, pair->source, pair->n_source);
    sequence.prompt_len = pair->n_decoder;
    for (uint32_t at = 0, n; at < pair->n_decoder; at += n) {
        const uint32_t left = pair->n_decoder - at;
        float *logits = logits_out + (size_t)at * runner->vocabulary;
        n = chunk_tokens > 0 && chunk_tokens < left ? chunk_tokens : left;
        if (chunk_tokens == 1)
            runner_decode(runner, &sequence, pair->decoder[at], logits);
        else
            chunk_logits(runner, &sequence, pair->decoder + at, n, logits);
    }
    runner_end(runner, &sequence);
}
