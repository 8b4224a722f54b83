/* drafter: guesses are what the draft model itself would go on with, from KV that is kept as far as tokens are the same; lines keep their
 * slots and take blocks from those that are gone; what the draft model does not know, or has no room for, is not guessed. */
#include "model/forward/forward.h"
#include "sampling_params/sampling_params.h"
#include "tests/model/support/runner.h"
#include "worker_common/drafter.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, N_TOKENS = 128, CHUNK = 32, LINES_MAX = 20, ROOM = N_TOKENS + 32 };

#define LLAMA GOLDEN_MODELS "/llama_t4"

/* What the draft model says without a drafter: the whole line each time. */
static struct runner oracle;
static struct drafter *drafter;
static uint32_t vocabulary; /* of the worker's model; 0: as the draft model's */

static struct sampling_params sampling;

static struct drafter_options options_of(uint32_t n_lines, uint64_t memory)
{
    return (struct drafter_options){
        .model = oracle.model,
        .device = oracle.device,
        .block_tokens = BLOCK,
        .context_tokens = N_TOKENS,
        .vocabulary = vocabulary ? vocabulary : oracle.vocabulary,
        .sequences_max = n_lines,
        .chunk_tokens = CHUNK,
        .memory_bytes = memory,
    };
}

static void open_drafter(const char *folder, uint32_t n_lines, uint64_t memory)
{
    struct error error = {""};
    runner_open(&oracle, folder, (struct runner_options){.tokens_max = 512});
    const struct drafter_options options = options_of(n_lines, memory);
    cr_assert_eq(drafter_create(&options, &error, &drafter), STATUS_OK, "%s", error.text);
    sampling = SAMPLING_GREEDY;
}

static void close_drafter(void)
{
    drafter_destroy(drafter);
    runner_close(&oracle);
}

static uint64_t blocks_memory(uint32_t n)
{
    return n * (uint64_t)forward_block_bytes(model_get_config(oracle.model), BLOCK, CACHE_F32);
}

/* ---- lines ---- */

static uint32_t texts[LINES_MAX][ROOM];

static struct drafter_line line_of(uint32_t id, uint32_t n_tokens, uint32_t n_wanted)
{
    return (struct drafter_line){.id = id,
                                 .tokens = texts[id],
                                 .n_tokens = n_tokens,
                                 .n_prompt = n_tokens,
                                 .params = &sampling,
                                 .n_wanted = n_wanted};
}

static void fill(uint32_t id, uint32_t seed, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        texts[id][i] = (seed + i * i * 7 + i * seed) % oracle.vocabulary;
}

static bool run(struct drafter_line *lines, uint32_t n)
{
    bool has_caught_up;
    cr_assert_eq(drafter_run(drafter, lines, n, &has_caught_up), STATUS_OK);
    return has_caught_up;
}

/* Until it is guessed. Returns the runs. */
static uint32_t run_until(struct drafter_line *line)
{
    const uint32_t n_wanted = line->n_wanted;
    uint32_t n = 1;
    while (run(line, 1) && line->n_out == 0) {
        line->n_wanted = n_wanted;
        cr_assert_lt(n++, 20);
    }
    return n;
}

static uint32_t likeliest(const float *row)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < oracle.vocabulary; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

/* The guesses of a greedy line are the likeliest tokens of its model. */
static void expect_right(const struct drafter_line *line)
{
    float *row = malloc(oracle.vocabulary * sizeof *row);
    struct runner_sequence sequence = {0};
    runner_begin(&oracle, &sequence, ROOM);
    cr_assert_gt(line->n_out, 0);
    runner_prefill(&oracle, &sequence, line->tokens, line->n_tokens, 0, row);
    for (uint32_t i = 0; i < line->n_out; i++) {
        const uint32_t id = line->tokens[line->n_tokens + i];
        cr_assert_eq(id, likeliest(row), "line %u, guess %u", (unsigned)line->id, i);
        runner_decode(&oracle, &sequence, id, row);
    }
    runner_end(&oracle, &sequence);
    free(row);
}

Test(drafter, guesses_what_its_model_would_go_on_with)
{
    open_drafter(LLAMA, 4, 1 << 24);
    for (uint32_t id = 0; id < 4; id++)
        fill(id, id + 3, 20 + id * 9);
    struct drafter_line lines[4] = {line_of(0, 20, 5), line_of(1, 29, 1), line_of(2, 38, 16),
                                    line_of(3, 47, 9)};
    run(lines, 4);
    for (uint32_t id = 0; id < 4; id++) {
        cr_expect_eq(lines[id].n_out, lines[id].n_wanted);
        expect_right(&lines[id]);
    }
    close_drafter();
}

/* Whatever comes in place of guesses. */
Test(drafter, forgets_what_was_guessed_wrongly)
{
    open_drafter(LLAMA, 2, 1 << 24);
    fill(0, 5, 30);
    fill(1, 9, 30);
    for (uint32_t n = 30; n < 100; n += 3) {
        struct drafter_line lines[2] = {line_of(0, n, 4), line_of(1, n, 4)};
        run(lines, 2);
        cr_assert_eq(lines[0].n_out, 4);
        expect_right(&lines[0]);
        expect_right(&lines[1]);
        texts[0][n + 1] = (texts[0][n + 1] + 1) %
                          oracle.vocabulary;                 /* the second guess was wrong */
        texts[1][n] = (texts[1][n] + n) % oracle.vocabulary; /* the first one, or none */
    }
    cr_expect_eq(drafter_figures(drafter).caught_up_tokens, 0);
    close_drafter();
}

Test(drafter, catches_up_in_chunks_while_others_are_guessed)
{
    open_drafter(LLAMA, 2, 1 << 24);
    fill(0, 5, N_TOKENS);
    fill(1, 9, 12);
    uint32_t n_runs = 0;
    for (struct drafter_line lines[2] = {{0}}; lines[0].n_out == 0; n_runs++) {
        lines[0] = line_of(0, 110, 3);
        lines[1] = line_of(1, 12, 2);
        const bool has_caught_up = run(lines, 2);
        cr_assert_eq(has_caught_up, n_runs < 3, "run %u", n_runs);
        cr_assert_eq(lines[1].n_out, 2);
        cr_assert_lt(n_runs, 10);
        if (lines[0].n_out > 0)
            expect_right(&lines[0]);
    }
    /* Two chunks of 32 leave 46, which a guess computes; a chunk says nothing of its time. */
    cr_expect_eq(n_runs, 3);
    cr_expect_eq(drafter_figures(drafter).caught_up_tokens, 2 * CHUNK);
    close_drafter();
}

/* ---- slots ---- */

Test(drafter, a_new_line_takes_the_slot_that_has_most_of_it)
{
    open_drafter(LLAMA, 3, 1 << 24);
    for (uint32_t id = 0; id < 3; id++) {
        fill(id, id + 2, 60);
        struct drafter_line line = line_of(id, 60, 2);
        run_until(&line);
    }
    memcpy(texts[4], texts[1], 50 * sizeof **texts);
    fill(5, 77, 60);
    struct drafter_line line = line_of(4, 55, 2);
    run_until(&line);
    expect_right(&line);
    cr_expect_eq(drafter_figures(drafter).kept_tokens, 50);
    line = line_of(5, 60, 2); /* like none: that of line 0, which was used least recently */
    run_until(&line);
    line = line_of(2, 60, 2);
    run_until(&line);
    cr_expect_eq(drafter_figures(drafter).kept_tokens, 50, "line 2 still had its slot");
    close_drafter();
}

Test(drafter, a_new_line_finds_nothing_of_those_with_another_salt)
{
    static const char *const SALTS[] = {"", "a", "b", "ab", "a"};
    static const uint32_t KEPT[] = {0, 0, 0, 0, 49};
    uint64_t n_kept = 0;
    open_drafter(LLAMA, 4, 1 << 24);
    for (uint32_t id = 0; id < 5; id++) {
        fill(id, 7, 60);
        struct drafter_line line = line_of(id, 50 + id % 4, 2);
        line.salt = SALTS[id];
        line.salt_bytes = strlen(SALTS[id]);
        run_until(&line);
        expect_right(&line);
        cr_expect_eq(drafter_figures(drafter).kept_tokens - n_kept, KEPT[id], "line %u: %u", id,
                     (unsigned)(drafter_figures(drafter).kept_tokens - n_kept));
        n_kept = drafter_figures(drafter).kept_tokens;
    }
    close_drafter();
}

Test(drafter, more_lines_than_slots_are_not_all_guessed_and_none_loses_its_slot)
{
    enum { N = 5 };
    struct drafter_line lines[N];
    open_drafter(LLAMA, 2, 1 << 24);
    for (uint32_t id = 0; id < N; id++)
        fill(id, id + 2, 40);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t id = 0; id < N; id++)
            lines[id] = line_of(id, 30 + round, round == 2 ? 0 : 2); /* 0: it keeps its slot */
        run(lines, N);
        for (uint32_t id = 0; id < N; id++)
            cr_assert_eq(lines[id].n_out, id < 2 && round != 2 ? 2 : 0, "line %u", id);
        if (round != 2)
            expect_right(&lines[1]);
    }
    cr_expect_eq(drafter_figures(drafter).kept_tokens, 0);
    close_drafter();
}

Test(drafter, slots_of_lines_that_are_gone_give_their_blocks)
{
    runner_open(&oracle, LLAMA, (struct runner_options){.tokens_max = 512});
    const uint64_t memory = blocks_memory(9);
    runner_close(&oracle);
    open_drafter(LLAMA, 4, memory);
    const uint32_t n_blocks = drafter_sizes(drafter).n_blocks;
    cr_assert(n_blocks >= 9 && n_blocks < 4 * N_TOKENS / BLOCK, "%u", n_blocks);
    for (uint32_t id = 0; id < LINES_MAX; id++) {
        fill(id, id + 2, 100);
        struct drafter_line line = line_of(id, 90, 3);
        run_until(&line);
        cr_assert_eq(line.n_out, 3, "line %u", id);
        expect_right(&line);
        cr_assert_leq(drafter_figures(drafter).blocks_held, n_blocks);
    }
    close_drafter();
}

Test(drafter, lines_of_one_run_do_not_take_blocks_from_each_other)
{
    runner_open(&oracle, LLAMA, (struct runner_options){.tokens_max = 512});
    const uint64_t memory = blocks_memory(9);
    runner_close(&oracle);
    open_drafter(LLAMA, 4, memory);
    const uint32_t n_blocks = drafter_sizes(drafter).n_blocks;
    uint32_t n_guessed = 0;
    for (uint32_t round = 0; round < 12; round++) {
        struct drafter_line lines[4];
        for (uint32_t id = 0; id < 4; id++) {
            fill(id, id + 2, 100);
            lines[id] = line_of(id, 90, 1);
        }
        run(lines, 4);
        n_guessed = 0;
        for (uint32_t id = 0; id < 4; id++)
            n_guessed += lines[id].n_out;
    }
    cr_expect(n_guessed >= 1 && n_guessed <= n_blocks / 6, "%u of %u blocks", n_guessed, n_blocks);
    close_drafter();
}

/* ---- what is not guessed ---- */

Test(drafter, a_line_is_guessed_up_to_the_context)
{
    open_drafter(LLAMA, 1, 1 << 24);
    fill(0, 3, ROOM);
    struct drafter_line line = line_of(0, N_TOKENS - 2, 8);
    run_until(&line);
    cr_expect_eq(line.n_out, 3); /* the last is computed by nobody */
    line = line_of(0, N_TOKENS, 8);
    run(&line, 1);
    cr_expect_eq(line.n_out, 1);
    line = line_of(0, N_TOKENS + 1, 8);
    run(&line, 1);
    cr_expect_eq(line.n_out, 0);
    close_drafter();
}

Test(drafter, tokens_that_one_of_the_models_lacks_are_no_guess)
{
    open_drafter(LLAMA, 2, 1 << 24);
    fill(0, 3, 40);
    struct drafter_line line = line_of(0, 40, 4);
    run_until(&line);
    const uint32_t first = line.tokens[40];
    close_drafter();

    vocabulary = first; /* the worker's model has fewer tokens than the draft model */
    open_drafter(LLAMA, 2, 1 << 24);
    line = line_of(0, 40, 4);
    run(&line, 1);
    cr_expect(line.n_out == 0 && line.has_failed);
    close_drafter();

    vocabulary = 100000; /* it has more: rules may name them, and lines may have them */
    open_drafter(LLAMA, 2, 1 << 24);
    static const uint32_t IDS[] = {99999, 5}, LENGTHS[] = {1};
    static const float BIASES[] = {3, 4};
    const struct token_rules rules = {.n_biases = 2,
                                      .bias_ids = IDS,
                                      .biases = BIASES,
                                      .n_bad = 1,
                                      .bad_lengths = LENGTHS,
                                      .n_bad_ids = 1,
                                      .bad_ids = IDS};
    sampling.rules = &rules;
    sampling.n_stop_token_ids = 1;
    sampling.stop_token_ids[0] = 90000;
    sampling.min_tokens = 3;
    line = line_of(0, 40, 4);
    run(&line, 1);
    cr_expect_eq(line.n_out, 4);
    texts[0][38] = oracle.vocabulary;
    line = line_of(0, 40, 4);
    run(&line, 1);
    cr_expect(line.n_out == 0 && !line.has_failed, "it was not asked");
    close_drafter();
}

Test(drafter, draws_as_the_reply_is_drawn)
{
    uint32_t n_same = 0;
    open_drafter(LLAMA, 1, 1 << 24);
    fill(0, 3, 40);
    sampling.temperature = 1;
    sampling.seed = 11;
    struct drafter_line line = line_of(0, 40, 12);
    uint32_t first[12];
    run(&line, 1);
    memcpy(first, line.tokens + 40, sizeof first);
    fill(0, 3, 40);
    for (uint32_t i = 0; i < 12; i++) { /* one by one, from other places of the pass */
        struct drafter_line next = line_of(0, 40 + i, 1);
        next.n_prompt = 40;
        run(&next, 1);
        n_same += next.tokens[40 + i] == first[i];
    }
    cr_expect_eq(n_same, 12);
    sampling.seed = 12;
    line = line_of(0, 40, 12);
    run(&line, 1);
    cr_expect_neq(memcmp(first, line.tokens + 40, sizeof first), 0);
    close_drafter();
}

/* ---- options ---- */

static void expect_refused(const struct drafter_options *options, enum status status,
                           const char *sentence)
{
    struct error error = {""};
    struct drafter_sizes sizes;
    cr_expect_eq(drafter_plan(options, &sizes, &error), status);
    cr_expect(strstr(error.text, sentence), "%s", error.text);
}

Test(drafter, refuses_a_model_that_does_not_go_back_and_too_little_room)
{
    runner_open(&oracle, LLAMA, (struct runner_options){.tokens_max = 512});
    struct drafter_options options = options_of(4, blocks_memory(2));
    expect_refused(&options, STATUS_INVALID_ARGUMENT, "draft_memory is ");
    options = options_of(4, 1 << 24);
    options.context_tokens = 100;
    expect_refused(&options, STATUS_INVALID_ARGUMENT, "expected at least 128");
    runner_close(&oracle);

    runner_open(&oracle, GOLDEN_MODELS "/qwen3_5_t5", (struct runner_options){.tokens_max = 128});
    options = options_of(4, 1 << 24);
    expect_refused(&options, STATUS_UNSUPPORTED, "draft_model has layers of recurrent state");
    runner_close(&oracle);

    runner_open(&oracle, KVFERRY_SOURCE_DIR "/tests/golden/encoders/bart",
                (struct runner_options){.tokens_max = 128});
    options = options_of(4, 1 << 24);
    expect_refused(&options, STATUS_UNSUPPORTED, "draft_model has an encoder");
    runner_close(&oracle);
}
