/* choice_scores: a door hears of each token of the prompt once and in order, whatever attempts there are; a worker that leaves some out,
 * or says what nobody asked for, is a bug. */
#include "router/requests/choice_scores.h"
#include "router/requests/generation.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N_PROMPT = 200, N_TOP = 2 };

static struct door_double call;
static struct generation generation;
static struct choice choices[2];
static struct reply_scratch scratch;
static uint32_t ids[N_PROMPT];
static Kvferry__V1__TokenLogprobs messages[N_PROMPT], *list[N_PROMPT];
static Kvferry__V1__TokenLogprob tops[N_TOP + 1],
    *top_list[N_TOP + 1] = {&tops[0], &tops[1], &tops[2]};

static void begin(void)
{
    memset(&generation, 0, sizeof generation);
    memset(choices, 0, sizeof choices);
    door_double_init(&call, "id");
    for (uint32_t i = 0; i < N_PROMPT; i++) {
        ids[i] = 1000 + i;
        kvferry__v1__token_logprobs__init(&messages[i]);
        messages[i].logprob = -(float)i;
        list[i] = &messages[i];
    }
    for (uint32_t i = 0; i <= N_TOP; i++)
        kvferry__v1__token_logprob__init(&tops[i]);
    generation.call = &call.base;
    generation.choices = choices;
    generation.n_choices = 2;
    generation.token_ids = ids;
    generation.n_tokens = N_PROMPT;
    generation.sampling.params.scores_prompt = true;
    generation.sampling.params.n_prompt_logprobs = N_TOP;
    choices[0] = (struct choice){.generation = &generation};
    choices[1] = (struct choice){.generation = &generation, .index = 1};
}

TestSuite(choice_scores, .init = begin);

static enum status tell(uint32_t first, uint32_t n)
{
    return choice_scores(&choices[0], first, list + first, n, scratch.logprobs);
}

static void expect_told(uint32_t n)
{
    cr_assert_eq(call.n_scores, n);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(call.scored_ids[i], 1000 + i);
        cr_assert_eq(call.scores[i], -(float)i);
    }
    cr_assert_eq(choice_lacks_scores(&choices[0]), n < N_PROMPT);
}

Test(choice_scores, are_told_in_pieces_that_a_door_takes)
{
    cr_assert_gt(N_PROMPT, REPLY_TOKENS_MAX);
    cr_assert_eq(tell(0, N_PROMPT), STATUS_OK);
    expect_told(N_PROMPT);
}

Test(choice_scores, of_a_second_attempt_are_told_from_where_the_first_ended)
{
    cr_assert_eq(tell(0, 70), STATUS_OK);
    expect_told(70);
    cr_assert_eq(tell(0, 30), STATUS_OK); /* of another worker */
    expect_told(70);
    cr_assert_eq(tell(30, 100), STATUS_OK);
    expect_told(130);
    cr_assert_eq(tell(130, 70), STATUS_OK);
    expect_told(N_PROMPT);
    cr_assert_eq(tell(0, N_PROMPT), STATUS_OK);
    expect_told(N_PROMPT);
}

Test(choice_scores, with_a_gap_or_beyond_the_prompt_are_a_bug)
{
    cr_assert_eq(tell(0, 10), STATUS_OK);
    cr_assert_eq(tell(11, 5), STATUS_BUG);
    cr_assert_eq(choice_scores(&choices[0], 10, list, N_PROMPT - 9, scratch.logprobs), STATUS_BUG);
    cr_assert_eq(choice_scores(&choices[0], UINT32_MAX, list, 2, scratch.logprobs), STATUS_BUG);
    cr_assert_eq(choice_scores(&choices[0], 10, list, SIZE_MAX, scratch.logprobs), STATUS_BUG);
    expect_told(10);
}

Test(choice_scores, that_are_not_as_asked_for_are_a_bug)
{
    messages[20].logprob = NAN;
    cr_assert_eq(tell(0, 30), STATUS_BUG);
    messages[20].logprob = -INFINITY; /* as far as a model may go */
    messages[20].top = top_list;
    messages[20].n_top = N_TOP + 1;
    cr_assert_eq(tell(0, 30), STATUS_BUG);
    cr_assert_eq(call.n_scores, 0);
    messages[20].n_top = N_TOP;
    tops[1].logprob = NAN;
    cr_assert_eq(tell(0, 30), STATUS_BUG);
    tops[1].logprob = 0.5f;
    cr_assert_eq(tell(0, 30), STATUS_BUG);
    tops[1].logprob = -1;
    messages[29].logprob = INFINITY;
    cr_assert_eq(tell(0, 30), STATUS_BUG);
    messages[29].logprob = -29;
    messages[0].logprob = -1; /* nothing comes before it */
    cr_assert_eq(tell(0, 30), STATUS_BUG);
    messages[0].logprob = 0;
    cr_assert_eq(call.n_scores, 0);
    cr_assert_eq(tell(0, 30), STATUS_OK);
    cr_assert_eq(call.n_scores, 30);
}

Test(choice_scores, are_those_of_the_first_choice_and_of_who_asks)
{
    cr_assert(choice_asks_for_scores(&choices[0]) && !choice_asks_for_scores(&choices[1]));
    cr_assert_not(choice_lacks_scores(&choices[1]));
    cr_assert_eq(choice_scores(&choices[1], 0, list, 5, scratch.logprobs), STATUS_BUG);
    generation.sampling.params.scores_prompt = false;
    cr_assert_not(choice_lacks_scores(&choices[0]));
    cr_assert_eq(tell(0, 5), STATUS_BUG);
    cr_assert_eq(call.n_scores, 0);
}

/* ---- in the stream of an attempt ---- */

Test(choice_scores, that_are_missing_before_a_token_end_the_reply)
{
    Kvferry__Internal__V1__DecodeResponse message = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    struct metrics *registry;
    struct router_metrics metrics;
    uint32_t token = 5;
    cr_assert_eq(metrics_create("router", &registry), STATUS_OK);
    router_metrics_create(&metrics, registry);
    message.prompt_logprobs = list;
    message.n_prompt_logprobs = N_PROMPT - 1;
    choice_tokens(&choices[0], &message, &scratch, &metrics, 1);
    expect_told(N_PROMPT - 1);
    cr_assert_not(generation.is_unheard);
    message.n_prompt_logprobs = 0;
    message.token_ids = &token;
    message.n_token_ids = 1;
    choice_tokens(&choices[0], &message, &scratch, &metrics, 2);
    cr_assert(generation.is_unheard);
    cr_assert_eq(generation.left, STATUS_BUG);
    cr_assert_eq(call.n_ids, 0);
    metrics_destroy(registry);
}
