/* engine_logprobs: the generated token is the first, with its rank where that is known, and nobody is there twice. */
#include "api/engine/engine_logprobs.h"

#include <criterion/criterion.h>

static const struct token_logprobs FROM = {
    .logprob = -2, .n_top = 3, .top_ids = {10, 11, 12}, .top_logprobs = {-1, -2, -3}};

Test(engine_logprobs, the_generated_token_is_first_and_only_there)
{
    struct engine_logprob out[ENGINE_LOGPROBS_MAX];
    cr_assert_eq(engine_logprobs_first(&FROM, 11, 3, out), 3);
    cr_expect_eq(out[0].id, 11);
    cr_expect_eq(out[0].logprob, -2);
    cr_expect_eq(out[0].rank, 2);
    cr_expect_eq(out[1].id, 10);
    cr_expect_eq(out[1].rank, 1);
    cr_expect_eq(out[2].id, 12);
    cr_expect_eq(out[2].logprob, -3);
}

Test(engine_logprobs, a_token_beyond_the_likeliest_is_one_more)
{
    struct engine_logprob out[ENGINE_LOGPROBS_MAX];
    cr_assert_eq(engine_logprobs_first(&FROM, 99, 3, out), 4);
    cr_expect_eq(out[0].id, 99);
    cr_expect_eq(out[0].rank, 0, "not known");
    cr_expect_eq(out[3].id, 12);
}

Test(engine_logprobs, none_of_the_others_is_told_unasked)
{
    struct engine_logprob out[ENGINE_LOGPROBS_MAX];
    cr_assert_eq(engine_logprobs_first(&FROM, 10, 0, out), 1);
    cr_expect_eq(out[0].rank, 1);
    cr_assert_eq(engine_logprobs_first(&FROM, 12, 1, out), 2,
                 "the likeliest, and the generated one");
    cr_expect_eq(out[1].id, 10);
}

Test(engine_logprobs, there_is_room_for_the_most)
{
    struct token_logprobs most = {.n_top = LOGPROBS_MAX};
    struct engine_logprob out[ENGINE_LOGPROBS_MAX];
    for (uint32_t i = 0; i < LOGPROBS_MAX; i++)
        most.top_ids[i] = i;
    cr_assert_eq(engine_logprobs_first(&most, 999, LOGPROBS_MAX, out), ENGINE_LOGPROBS_MAX);
    cr_expect_eq(out[LOGPROBS_MAX].id, LOGPROBS_MAX - 1);
}
