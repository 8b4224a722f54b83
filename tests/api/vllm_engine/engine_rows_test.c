/* engine_rows: each place has its own token and the likeliest others, in the room of as many as were asked for. */
#include "api/reply/collected_scores.h"
#include "api/vllm_engine/engine_rows.h"

#include <criterion/criterion.h>

enum { N = 50 };

/* Place i knows the most; its own token is none of them. */
static struct token_logprobs place(uint32_t i)
{
    struct token_logprobs out = {.logprob = -99, .n_top = LOGPROBS_MAX};
    for (uint32_t k = 0; k < LOGPROBS_MAX; k++) {
        out.top_ids[k] = 100 * i + k;
        out.top_logprobs[k] = -(float)k;
    }
    return out;
}

static void expect(const Vllm__Grpc__Engine__TopLogProbs *row, uint32_t i, uint32_t n_top)
{
    cr_assert_eq(row->n_values, n_top + 1);
    cr_assert_eq(row->n_token_ids, n_top + 1);
    cr_assert(row->token_ids[0] == 7 && row->values[0] == -99);
    for (uint32_t k = 0; k < n_top; k++) {
        cr_assert_eq(row->token_ids[1 + k], 100 * i + k);
        cr_assert_eq(row->values[1 + k], -(float)k);
    }
}

Test(engine_rows, a_place_has_its_own_token_and_those_that_were_asked_for)
{
    static const uint32_t ASKED[] = {0, 1, 3, LOGPROBS_MAX, LOGPROBS_MAX + 5};
    for (size_t a = 0; a < sizeof ASKED / sizeof *ASKED; a++) {
        struct engine_rows rows;
        cr_assert_eq(engine_rows_init(&rows, N, ASKED[a]), STATUS_OK);
        for (uint32_t i = 1; i < N; i++) {
            const struct token_logprobs from = place(i);
            engine_rows_set(&rows, i, 7, &from);
        }
        engine_rows_set(&rows, 0, 7, NULL);
        cr_expect_eq(rows.list[0]->n_values, 0);
        cr_expect_eq(rows.list[0]->n_token_ids, 0);
        for (uint32_t i = 1; i < N; i++)
            expect(rows.list[i], i, ASKED[a] < LOGPROBS_MAX ? ASKED[a] : LOGPROBS_MAX);
        engine_rows_finish(&rows);
    }
}

Test(engine_rows, they_take_little_more_than_the_reply_counts_for)
{
    for (uint32_t n_top = 1; n_top <= LOGPROBS_MAX; n_top++) {
        const struct collected_scores counted = {.n_top = n_top, .n = 100000};
        cr_expect_lt(engine_rows_bytes(counted.n, n_top), 5 * collected_scores_bytes(&counted) / 2,
                     "%u", n_top);
    }
}
