/* prompt_scores: what is no log-probability is refused, also among the likeliest tokens, and whatever token 0 is said to have. */
#include "sampling_params/prompt_scores.h"

#include <criterion/criterion.h>
#include <math.h>

Test(prompt_scores, are_at_most_zero_but_for_rounding)
{
    static const float GOOD[] = {0, -0.0f, 0.0009f, -1e-9f, -30, -1e30f, -INFINITY};
    static const float BAD[] = {NAN, -NAN, INFINITY, 0.0011f, 1, 1e30f};
    for (uint32_t is_top = 0; is_top < 2; is_top++) {
        struct token_logprobs score = {.logprob = -1, .n_top = 3, .top_logprobs = {-1, -1, -1}};
        float *value = is_top ? &score.top_logprobs[2] : &score.logprob;
        for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
            *value = GOOD[i];
            cr_expect(prompt_score_is_valid(&score, 1, 3), "%g", (double)GOOD[i]);
        }
        for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
            *value = BAD[i];
            cr_expect_not(prompt_score_is_valid(&score, 1, 3), "%g", (double)BAD[i]);
        }
    }
}

Test(prompt_scores, have_no_more_likeliest_tokens_than_were_asked_for)
{
    const struct token_logprobs score = {.logprob = -1, .n_top = 3, .top_logprobs = {-1, -1, -1}};
    cr_expect(prompt_score_is_valid(&score, 7, 4));
    cr_expect_not(prompt_score_is_valid(&score, 7, 2));
}

Test(prompt_scores, of_token_0_are_zeros)
{
    struct token_logprobs score = {0};
    cr_expect(prompt_score_is_valid(&score, 0, 3));
    score.logprob = -1;
    cr_expect_not(prompt_score_is_valid(&score, 0, 3));
    score = (struct token_logprobs){.n_top = 1};
    cr_expect_not(prompt_score_is_valid(&score, 0, 3));
}
