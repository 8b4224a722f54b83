/* inference_rows: each place has its likeliest tokens in their order, in the room of as many as were asked for. */
#include "api/reply/collected_scores.h"
#include "api/vllm_inference/inference_rows.h"

#include <criterion/criterion.h>

enum { N = 50 };

/* Place i knows so many. */
static struct token_logprobs place(uint32_t i, uint32_t n)
{
    struct token_logprobs out = {.n_top = n};
    for (uint32_t k = 0; k < n; k++) {
        out.top_ids[k] = 100 * i + k;
        out.top_logprobs[k] = -(float)k;
    }
    return out;
}

static void expect(const Vllm__CandidateTokenInfo *row, uint32_t i, uint32_t n)
{
    cr_assert_eq(row->n_tokens, n);
    for (uint32_t k = 0; k < n; k++) {
        cr_assert_eq(row->tokens[k]->id, 100 * i + k);
        cr_assert_eq(row->tokens[k]->logprob, -(float)k);
        cr_assert_eq(row->tokens[k]->rank, k + 1);
    }
}

Test(inference_rows, a_place_has_those_that_were_asked_for)
{
    static const uint32_t ASKED[] = {1, 3, LOGPROBS_MAX, LOGPROBS_MAX + 5};
    for (size_t a = 0; a < sizeof ASKED / sizeof *ASKED; a++) {
        struct inference_rows rows;
        cr_assert_eq(inference_rows_init(&rows, N, ASKED[a]), STATUS_OK);
        for (uint32_t i = 0; i < N; i++) {
            const struct token_logprobs from = place(i, i % (LOGPROBS_MAX + 1));
            inference_rows_set(&rows, i, &from);
        }
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t n = i % (LOGPROBS_MAX + 1);
            expect(rows.list[i], i, n < ASKED[a] ? n : ASKED[a]);
        }
        inference_rows_finish(&rows);
    }
}

Test(inference_rows, they_take_little_more_than_the_reply_counts_for)
{
    for (uint32_t n_top = 1; n_top <= LOGPROBS_MAX; n_top++) {
        const struct collected_scores counted = {.n_top = n_top, .n = 100000};
        cr_expect_lt(inference_rows_bytes(counted.n, n_top),
                     5 * collected_scores_bytes(&counted) / 2, "%u", n_top);
    }
}
