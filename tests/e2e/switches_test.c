/* Whatever chooses how attention is computed, a split cluster has the tokens of one process with the same choice. */
#include "support/expect.h"

#include <criterion/criterion.h>

enum { N_REQUESTS = 5, N_TOKENS = 30 };

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 41, 300, 900};

static uint64_t expect_split(const char *const *flags)
{
    return expect_split_is_single(flags, LENGTHS, N_REQUESTS, N_TOKENS);
}

Test(switches, stored_scores)
{
    (void)expect_split((const char *const[]){"--attention-path", "unfused", NULL});
    (void)expect_split(
        (const char *const[]){"--attention-path", "short", "--max-context-tokens", "1024", NULL});
}

Test(switches, generated_tokens_in_parts_and_heads_alone)
{
    (void)expect_split(
        (const char *const[]){"--multi-block", "on", "--grouped-query", "off", NULL});
}
