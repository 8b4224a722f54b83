/* adapter: a sequence's logits are the same bits with any adapters beside it, in any chunks, blocks and threads. */
#include "base/random.h"
#include "model/adapter/adapter.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ADAPTERS KVFERRY_SOURCE_DIR "/tests/golden/adapters"
#define LLAMA    GOLDEN_MODELS "/llama_t5_bias"
#define PHI3     GOLDEN_MODELS "/phi3_t4"

enum { N_KINDS = 4, N_MATES = 12, N_DECODED = 6, PROMPT_MAX = 100, ROWS = N_DECODED + 1 };

static const char *const KINDS[N_KINDS] = {NULL, ADAPTERS "/llama", ADAPTERS "/llama_other",
                                           ADAPTERS "/llama_deep"};

/* A sequence, fed in chunks of its own size, then decoded. */
struct mate {
    struct runner_sequence sequence;
    uint32_t ids[PROMPT_MAX + N_DECODED], n_prompt, chunk, n_rows;
    float *rows; /* [ROWS][vocabulary] */
};

static struct adapter *load(const struct runner *runner, const char *folder)
{
    struct error error = {""};
    struct adapter *adapter = NULL;
    if (folder)
        cr_assert_eq(adapter_load(folder, runner->model, NULL, &error, &adapter), STATUS_OK, "%s",
                     error.text);
    return adapter;
}

static void begin(struct runner *runner, struct mate *mate, uint32_t i,
                  const struct adapter *adapter)
{
    struct random random;
    random_init(&random, i);
    *mate = (struct mate){.n_prompt = 1 + (uint32_t)random_below(&random, PROMPT_MAX),
                          .chunk = runner->options.block_tokens << i % 3};
    for (uint32_t t = 0; t < mate->n_prompt + N_DECODED; t++)
        mate->ids[t] = (uint32_t)random_below(&random, runner->vocabulary);
    mate->rows = calloc((size_t)ROWS * runner->vocabulary, sizeof *mate->rows);
    runner_begin(runner, &mate->sequence, mate->n_prompt + N_DECODED);
    mate->sequence.prompt_len = mate->n_prompt;
    mate->sequence.adapter = adapter;
}

static uint32_t next_step(const struct mate *mate)
{
    const uint32_t past = mate->sequence.n_past;
    if (past >= mate->n_prompt)
        return mate->n_rows < ROWS ? 1 : 0;
    return mate->n_prompt - past < mate->chunk ? mate->n_prompt - past : mate->chunk;
}

/* Contexts first; which of the mates are in it depends on the round. Returns false if none has anything to do. */
static bool run_round(struct runner *runner, struct mate *mates, uint32_t n_mates, uint32_t round)
{
    struct forward_sequence batch[N_MATES];
    struct mate *whose[N_MATES];
    uint32_t n = 0, n_contexts = 0, n_logits = 0;
    bool is_left = false, is_in[N_MATES] = {false};
    for (int phase = 0; phase < 2; phase++) {
        for (uint32_t i = 0; i < n_mates; i++) {
            const uint32_t m = (i + round) % n_mates;
            struct mate *mate = &mates[m];
            const uint32_t past = mate->sequence.n_past, step = next_step(mate);
            is_left |= step > 0;
            if (step == 0 || is_in[m] || (n_mates > 1 && (i + 2 * round) % 5 == 4) ||
                (past < mate->n_prompt) != (phase == 0))
                continue;
            is_in[m] = true;
            const bool wants = past + step >= mate->n_prompt;
            if (wants)
                whose[n_logits++] = mate;
            batch[n++] = runner_next(&mate->sequence, mate->ids + past, step, wants);
        }
        if (phase == 0)
            n_contexts = n;
    }
    if (n == 0)
        return is_left;
    float *logits = calloc((size_t)N_MATES * runner->vocabulary, sizeof *logits);
    cr_assert_eq(forward_run(runner->forward, batch, n, n_contexts, logits), STATUS_OK);
    for (uint32_t i = 0; i < n_logits; i++)
        memcpy(whose[i]->rows + (size_t)whose[i]->n_rows++ * runner->vocabulary,
               logits + (size_t)i * runner->vocabulary, runner->vocabulary * sizeof *logits);
    free(logits);
    return true;
}

static void run_all(struct runner *runner, struct mate *mates, uint32_t n_mates)
{
    for (uint32_t round = 0; run_round(runner, mates, n_mates, round); round++)
        ;
}

static struct runner_options options_of(uint32_t block_tokens, uint32_t n_threads)
{
    return (struct runner_options){.block_tokens = block_tokens,
                                   .n_threads = n_threads,
                                   .n_blocks = N_MATES * 16,
                                   .tokens_max = 1600,
                                   .sequences_max = N_MATES,
                                   .adapter_rank_max = 16};
}

/* Each alone, in another cut. rows of mate i are compared with those in company. */
static void check_alone(const struct mate *mates, const char *model, const char *const *kinds,
                        uint32_t n_kinds, uint32_t block_tokens, uint32_t n_threads)
{
    struct runner runner;
    runner_open(&runner, model, options_of(block_tokens, n_threads));
    for (uint32_t i = 0; i < N_MATES; i++) {
        struct adapter *adapter = load(&runner, kinds[i % n_kinds]);
        struct mate alone;
        begin(&runner, &alone, i, adapter);
        alone.chunk = block_tokens * (i % 2 ? 1 : 100);
        run_all(&runner, &alone, 1);
        cr_assert_eq(memcmp(alone.rows, mates[i].rows,
                            (size_t)ROWS * runner.vocabulary * sizeof *alone.rows),
                     0, "sequence %u, blocks of %u, %u threads", i, block_tokens, n_threads);
        runner_end(&runner, &alone.sequence);
        adapter_release(adapter);
        free(alone.rows);
    }
    runner_close(&runner);
}

static void check_company(const char *model, const char *const *kinds, uint32_t n_kinds)
{
    static struct mate mates[N_MATES];
    struct adapter *adapters[N_KINDS];
    struct runner runner;
    runner_open(&runner, model, options_of(16, 2));
    for (uint32_t k = 0; k < n_kinds; k++)
        adapters[k] = load(&runner, kinds[k]);
    for (uint32_t i = 0; i < N_MATES; i++)
        begin(&runner, &mates[i], i, adapters[i % n_kinds]);
    run_all(&runner, mates, N_MATES);
    for (uint32_t i = 0; i < N_MATES; i++) {
        cr_assert_eq(mates[i].n_rows, ROWS);
        runner_end(&runner, &mates[i].sequence);
    }
    runner_close(&runner);
    check_alone(mates, model, kinds, n_kinds, 16, 0);
    check_alone(mates, model, kinds, n_kinds, 8, 1);
    check_alone(mates, model, kinds, n_kinds, 64, 2);
    for (uint32_t i = 0; i < N_MATES; i++)
        free(mates[i].rows);
    for (uint32_t k = 0; k < n_kinds; k++)
        adapter_release(adapters[k]);
}

Test(adapter_bits, company_with_other_adapters_changes_nothing)
{
    check_company(LLAMA, KINDS, N_KINDS);
}

Test(adapter_bits, company_changes_nothing_where_matrices_are_fused)
{
    static const char *const FUSED[] = {ADAPTERS "/phi3_fused", NULL};
    check_company(PHI3, FUSED, 2);
}

/* A prompt longer than the rows that are computed at a time. */
Test(adapter_bits, a_prompt_of_many_rows_has_the_bits_of_its_chunks)
{
    enum { N = 1100 };
    static uint32_t ids[N];
    float *logits[2];
    struct random random;
    struct runner runner;
    struct runner_options options = {.tokens_max = N, .adapter_rank_max = 4, .n_threads = 2};
    runner_open(&runner, DEMO_MODEL, options);
    struct error error = {""};
    struct adapter *adapter = NULL;
    cr_assert_eq(adapter_load(ADAPTERS "/demo", runner.model, NULL, &error, &adapter), STATUS_OK,
                 "%s", error.text);
    runner.adapter = adapter;
    random_init(&random, 1);
    for (uint32_t i = 0; i < N; i++)
        ids[i] = (uint32_t)random_below(&random, runner.vocabulary);
    for (uint32_t i = 0; i < 2; i++) {
        struct runner_sequence sequence;
        logits[i] = calloc(runner.vocabulary, sizeof **logits);
        runner_begin(&runner, &sequence, N);
        runner_prefill(&runner, &sequence, ids, N, i * 16, logits[i]);
        runner_end(&runner, &sequence);
    }
    cr_assert_eq(memcmp(logits[0], logits[1], runner.vocabulary * sizeof **logits), 0);
    free(logits[0]);
    free(logits[1]);
    adapter_release(adapter);
    runner_close(&runner);
}
