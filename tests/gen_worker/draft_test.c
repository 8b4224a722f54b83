/* draft: what is found is the latest of the longest matches; guesses stop where they cost more than they bring, and come back. */
#include "base/random.h"
#include "gen_worker/draft.h"

#include <criterion/criterion.h>
#include <string.h>

/* ---- the search, as it is said ---- */

static uint32_t n_same(const uint32_t *tokens, uint32_t n_tokens, uint32_t end)
{
    uint32_t n = 0;
    while (n < 8 && n < end && tokens[end - 1 - n] == tokens[n_tokens - 1 - n])
        n++;
    return n;
}

static uint32_t find(const uint32_t *tokens, uint32_t n_tokens, uint32_t n_max, uint32_t *n_out)
{
    uint32_t best = 0, n_best = 1;
    for (uint32_t end = 1; end < n_tokens; end++)
        if (n_same(tokens, n_tokens, end) >= 2 && n_same(tokens, n_tokens, end) >= n_best) {
            best = end;
            n_best = n_same(tokens, n_tokens, end);
        }
    *n_out = best == 0 ? 0 : n_max < n_tokens - best ? n_max : n_tokens - best;
    return best;
}

Test(draft, finds_what_followed_the_latest_longest_match)
{
    uint32_t tokens[300], n_found = 0;
    struct random random;
    random_init(&random, 5);
    for (uint32_t round = 0; round < 4000; round++) {
        const uint32_t n_tokens = 1 + random_below(&random, 300);
        const uint32_t n_max = random_below(&random, 17), few = 2 + random_below(&random, 30);
        uint32_t n, n_expected;
        for (uint32_t i = 0; i < n_tokens; i++)
            tokens[i] = random_below(&random, few);
        const uint32_t expected = find(tokens, n_tokens, n_max, &n_expected);
        const uint32_t from = draft_find(tokens, n_tokens, n_max, &n);
        cr_assert_eq(n, n_expected, "round %u", round);
        if (n == 0)
            continue;
        cr_assert_eq(from, expected, "round %u", round);
        cr_assert(from > 0 && from + n <= n_tokens);
        n_found++;
    }
    cr_assert_gt(n_found, 1500, "%u", n_found);
}

Test(draft, one_token_alone_is_no_match)
{
    static const uint32_t TOKENS[] = {1, 2, 3, 2};
    uint32_t n;
    (void)draft_find(TOKENS, 4, 8, &n);
    cr_assert_eq(n, 0);
    (void)draft_find(TOKENS, 1, 8, &n);
    cr_assert_eq(n, 0);
}

/* ---- how long ---- */

/* Passes of a machine on which a further row takes so much of a pass. */
static void measure(struct draft_pace *pace, uint32_t n_sequences, double row)
{
    *pace = (struct draft_pace){0};
    cr_assert(draft_pace_is_due(pace, n_sequences));
    draft_pace_took(pace, n_sequences, 0, 1000000);
    cr_assert_not(draft_pace_is_due(pace, n_sequences));
    for (int i = 0; i < 40; i++)
        draft_pace_took(pace, n_sequences, 4, (uint64_t)(1e6 * (1 + 4 * row)));
}

Test(draft, lucky_sequences_guess_more_where_rows_are_cheap)
{
    struct draft_pace cheap, dear;
    struct draft_luck best = {0}, luck = {0}, bad = {0};
    measure(&cheap, 1, 0.05);
    measure(&dear, 1, 0.6);
    for (int i = 0; i < 20; i++) {
        draft_luck_note(&best, 4, 4);
        draft_luck_note(&luck, 4, 3);
        draft_luck_note(&bad, 4, 0);
    }
    cr_assert_eq(draft_luck_length(&best, &cheap, 1), DRAFT_LENGTH_MAX);
    const uint32_t n = draft_luck_length(&luck, &cheap, 1);
    cr_assert(n >= 6 && n < DRAFT_LENGTH_MAX, "%u", n);
    cr_assert_leq(draft_luck_length(&luck, &dear, 1), 2);
    cr_assert_lt(draft_luck_length(&luck, &cheap, 8), n);
    cr_assert_leq(draft_luck_length(&bad, &cheap, 1), 1);
}

Test(draft, who_was_unlucky_tries_again_now_and_then)
{
    struct draft_pace pace;
    struct draft_luck luck = {0};
    uint32_t n_tries = 0;
    measure(&pace, 8, 0.2);
    for (int i = 0; i < 30; i++)
        draft_luck_note(&luck, 3, 0);
    for (int i = 0; i < 320; i++)
        if (draft_luck_length(&luck, &pace, 8) > 0) {
            draft_luck_note(&luck, 1, 0);
            n_tries++;
        }
    cr_assert(n_tries >= 9 && n_tries <= 11, "%u", n_tries);
    for (int i = 0; i < 60; i++)
        draft_luck_note(&luck, 1, 1);
    measure(&pace, 1, 0.2);
    cr_assert_gt(draft_luck_length(&luck, &pace, 1), 4, "share %g", luck.share);
}

Test(draft, passes_without_drafts_are_timed_again)
{
    struct draft_pace pace;
    measure(&pace, 2, 0.1);
    cr_assert_float_eq(pace.row, 0.1, 1e-6);
    for (int i = 0; i < 24; i++) {
        cr_assert_not(draft_pace_is_due(&pace, 2), "%d", i);
        draft_pace_took(&pace, 2, 4, 1400000);
    }
    cr_assert(draft_pace_is_due(&pace, 2));
    cr_assert(draft_pace_is_due(&pace, 3), "of three sequences none was timed");
    draft_pace_took(&pace, 2, 0, 1000000);
    cr_assert_not(draft_pace_is_due(&pace, 2));
}

/* ---- a draft model ---- */

static uint32_t n_tries(struct draft_luck *luck, struct draft_pace *pace, uint32_t n_passes,
                        bool is_right)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_passes; i++) {
        const uint32_t n_guessed = draft_luck_length(luck, pace, 1);
        const uint64_t step_ns = (uint64_t)(1e6 * (1 + n_guessed * pace->row));
        if (n_guessed > 0)
            draft_luck_note(luck, n_guessed, is_right ? n_guessed : 0);
        n += n_guessed > 0;
        draft_pace_took(pace, 1, n_guessed, step_ns);
    }
    return n;
}

Test(draft, a_draft_model_that_is_mostly_wrong_tries_less_and_less)
{
    struct draft_pace pace;
    struct draft_luck luck = {0};
    measure(&pace, 1, 0.3);
    pace.is_model = true;
    for (int i = 0; i < 30; i++)
        draft_luck_note(&luck, 3, 0);
    const uint32_t n = n_tries(&luck, &pace, 32 * 256, false);
    cr_expect(n >= 8 && n <= 10, "%u", n);
    for (int i = 0; i < 60; i++)
        draft_luck_note(&luck, 1, 1);
    cr_expect_gt(n_tries(&luck, &pace, 100, true), 95, "when its luck has turned");
}

Test(draft, a_draft_model_that_is_too_slow_tries_hardly_ever)
{
    struct draft_pace pace;
    struct draft_luck luck = {0}, other = {0};
    measure(&pace, 1, 1.2);
    pace.is_model = true;
    draft_pace_took(&pace, 1, 1, 2200000);
    draft_luck_note(&luck, 3, 3);
    cr_expect_eq(n_tries(&luck, &pace, 500, true), 0);
    cr_expect_eq(n_tries(&other, &pace, 1, true), 0, "nor a new sequence");
    const uint32_t n = n_tries(&luck, &pace, 16000, true);
    cr_expect(n >= 4 && n <= 6, "%u", n);
    for (int i = 0; i < 40; i++)
        draft_pace_took(&pace, 1, 1, 1200000); /* the machine is less busy */
    cr_expect_gt(n_tries(&luck, &pace, 100, true), 95);
}
