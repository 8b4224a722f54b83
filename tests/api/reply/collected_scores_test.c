/* collected_scores: what is put in comes out, in the room that was asked for, up to a bound. */
#include "api/reply/collected_scores.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_MAX = 100 };

static struct token_logprobs rows[N_MAX];
static uint32_t ids[N_MAX];

/* Row i has i % (n_top + 1) likeliest ones. */
static enum status add(struct collected_scores *collected, uint32_t n, size_t bytes_max)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = collected->first + collected->n + i;
        rows[i] = (struct token_logprobs){.logprob = -(float)at,
                                          .n_top = at % (collected->n_top + 1)};
        for (uint32_t k = 0; k < rows[i].n_top; k++) {
            rows[i].top_ids[k] = at + k;
            rows[i].top_logprobs[k] = -(float)k;
        }
        ids[i] = 7 * at;
    }
    return collected_scores_add(
        collected, ids,
        &(struct prompt_scores){.first = collected->first + collected->n, .n = n, .logprobs = rows},
        bytes_max);
}

static void expect(const struct collected_scores *collected, uint32_t i)
{
    struct token_logprobs out;
    cr_assert_eq(collected_scores_get(collected, i - collected->first, &out), 7 * i);
    cr_assert_eq(out.logprob, -(float)i);
    cr_assert_eq(out.n_top, i % (collected->n_top + 1));
    for (uint32_t k = 0; k < out.n_top; k++)
        cr_assert(out.top_ids[k] == i + k && out.top_logprobs[k] == -(float)k);
}

Test(collected_scores, come_out_as_they_went_in)
{
    static const uint32_t TOPS[] = {0, 1, 5, LOGPROBS_MAX};
    for (size_t t = 0; t < sizeof TOPS / sizeof *TOPS; t++) {
        struct collected_scores collected = {.n_top = TOPS[t]};
        for (uint32_t n = 1; n <= N_MAX; n += 9)
            cr_assert_eq(add(&collected, n, SIZE_MAX), STATUS_OK);
        cr_assert_gt(collected.n, 500);
        for (uint32_t i = 0; i < collected.n; i++)
            expect(&collected, i);
        collected_scores_finish(&collected);
        cr_assert(!collected.tokens && collected.n == 0);
    }
}

Test(collected_scores, that_have_left_give_room_to_the_next)
{
    struct collected_scores collected = {.n_top = 2};
    cr_assert_eq(add(&collected, 50, SIZE_MAX), STATUS_OK);
    const uint32_t room = collected.room;
    for (uint32_t first = 50; first < 500; first += 50) {
        collected_scores_clear(&collected);
        cr_assert(collected.first == first && collected.n == 0);
        cr_assert_eq(add(&collected, 50, SIZE_MAX), STATUS_OK);
        cr_assert_eq(collected.room, room);
        expect(&collected, first);
        expect(&collected, first + 49);
    }
    collected_scores_finish(&collected);
}

Test(collected_scores, are_of_a_whole_prompt_or_of_a_part)
{
    struct collected_scores collected = {.n_top = 1};
    cr_assert_eq(add(&collected, 10, SIZE_MAX), STATUS_OK);
    cr_expect(!collected_scores_are_of(&collected, 11));
    cr_assert_eq(add(&collected, 1, SIZE_MAX), STATUS_OK);
    cr_expect(collected_scores_are_of(&collected, 11));
    cr_expect(!collected_scores_are_of(&collected, 0), "it is not known how many it has");
    collected_scores_clear(&collected);
    cr_expect(!collected_scores_are_of(&collected, 11), "some have left");
    collected_scores_finish(&collected);
}

Test(collected_scores, have_a_bound)
{
    struct collected_scores collected = {.n_top = 3};
    cr_assert_eq(add(&collected, 10, SIZE_MAX), STATUS_OK);
    const size_t bytes = collected_scores_bytes(&collected);
    cr_assert_gt(bytes, 0);
    cr_assert_eq(add(&collected, 1, bytes), STATUS_REPLY_TOO_LONG);
    cr_assert_eq(collected.n, 10, "nothing was added");
    cr_assert_eq(add(&collected, 10, 2 * bytes), STATUS_OK);
    cr_assert_eq(collected_scores_bytes(&collected), 2 * bytes);
    expect(&collected, 19);
    collected_scores_finish(&collected);
    cr_assert_eq(collected_scores_bytes(&collected), 0);
}
