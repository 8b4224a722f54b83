/* collected: pieces become one reply, in order, with a log-probability for each token where some have one; its text has a bound. */
#include "api/reply/collected.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static enum status add(struct collected *collected, uint32_t first, uint32_t n, const char *text,
                       bool has_logprobs, size_t text_bytes_max)
{
    uint32_t ids[100];
    static struct token_logprobs logprobs[100];
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = first + i;
        logprobs[i] = (struct token_logprobs){.logprob = -(float)(first + i), .n_top = 1};
    }
    const struct reply_piece piece = {.token_ids = ids,
                                      .logprobs = has_logprobs ? logprobs : NULL,
                                      .n = n,
                                      .text = text,
                                      .text_bytes = strlen(text)};
    return collected_add(collected, &piece, text_bytes_max);
}

Test(collected, pieces_follow_each_other)
{
    struct collected collected = {0};
    uint32_t n = 0;
    for (uint32_t size = 1; size <= 100; size++) {
        cr_assert_eq(add(&collected, n, size, "ab", true, 4096), STATUS_OK);
        n += size;
    }
    cr_assert_eq(collected.n, n);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(collected.token_ids[i], i);
        cr_assert_eq(collected.logprobs[i].logprob, -(float)i);
    }
    cr_assert_eq(collected.text_bytes, 200);
    cr_assert_eq(strncmp(collected.text, "ababab", 6), 0);
    collected_finish(&collected);
    cr_assert_null(collected.token_ids);
}

Test(collected, tokens_without_log_probabilities_leave_gaps_and_no_others)
{
    struct collected collected = {0};
    cr_assert_eq(add(&collected, 1, 70, "", false, 10), STATUS_OK);
    cr_assert_null(collected.logprobs, "none were told");
    cr_assert_eq(add(&collected, 71, 2, "", true, 10), STATUS_OK);
    cr_assert_eq(add(&collected, 73, 90, "", false, 10), STATUS_OK);
    for (uint32_t i = 0; i < collected.n; i++)
        cr_assert_eq(collected.logprobs[i].n_top, i == 70 || i == 71, "%u", i);
    collected_finish(&collected);
}

Test(collected, a_text_has_a_bound_and_stays_as_it_was_beyond)
{
    struct collected collected = {0};
    cr_assert_eq(add(&collected, 0, 1, "1234", false, 10), STATUS_OK);
    cr_assert_eq(collected_add_text(&collected, "56789", 5, 10), STATUS_OK, "9 and a NUL");
    cr_assert_eq(collected_add_text(&collected, "x", 1, 10), STATUS_REPLY_TOO_LONG);
    cr_assert_eq(collected_add_text(&collected, "", 0, 10), STATUS_OK);
    cr_assert_str_eq(collected.text, "123456789");
    collected_finish(&collected);
}
