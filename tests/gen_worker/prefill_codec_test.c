/* Events of a Prefill as they come over the wire: one message may have several. */
#include "gen_worker/prefill_codec.h"

#include <criterion/criterion.h>

static struct prefill_scratch scratch;

struct last {
    Kvferry__Internal__V1__PrefillResponse response;
    Kvferry__Internal__V1__PrefillEnd end;
    Kvferry__Internal__V1__PrefillFirstToken first;
    Kvferry__Internal__V1__PrefillReady ready;
    Kvferry__Internal__V1__PrefillSealed sealed;
    uint32_t ids[2], digests[1];
};

static void make(struct last *last)
{
    kvferry__internal__v1__prefill_response__init(&last->response);
    kvferry__internal__v1__prefill_end__init(&last->end);
    kvferry__internal__v1__prefill_first_token__init(&last->first);
    kvferry__internal__v1__prefill_ready__init(&last->ready);
    kvferry__internal__v1__prefill_sealed__init(&last->sealed);
    last->response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_END;
    last->response.end = &last->end;
    last->end.first_token = &last->first;
    last->end.ready = &last->ready;
    last->end.sealed = &last->sealed;
    last->first.token_id = 7;
    last->ids[0] = 4, last->ids[1] = 9;
    last->ready.first_block = 3;
    last->ready.block_ids = last->ids;
    last->ready.n_block_ids = 2;
    last->sealed.n_tokens = 70;
    last->sealed.compute_us = 11;
}

Test(prefill_codec, an_end_is_a_first_token_then_blocks_then_a_seal)
{
    struct last last;
    struct prefill_events events;
    make(&last);
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_OK);
    cr_assert_eq(events.n, 3);
    cr_assert_eq(events.list[0].kind, EVENT_FIRST_TOKEN);
    cr_assert_eq(events.list[0].first_token.token_id, 7);
    cr_assert_eq(events.list[1].kind, EVENT_READY);
    cr_assert_eq(events.list[1].ready.first_block, 3);
    cr_assert_eq(events.list[1].ready.n_blocks, 2);
    cr_assert_eq(events.list[1].ready.block_ids[1], 9);
    cr_assert_null(events.list[1].ready.digests);
    cr_assert_eq(events.list[2].kind, EVENT_SEALED);
    cr_assert_eq(events.list[2].sealed.n_tokens, 70);
    cr_assert_eq(events.list[2].sealed.compute_us, 11);
}

Test(prefill_codec, an_end_has_what_was_not_sent_before)
{
    struct last last;
    struct prefill_events events;
    make(&last);
    last.end.first_token = NULL;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_OK);
    cr_assert_eq(events.n, 2);
    cr_assert_eq(events.list[0].kind, EVENT_READY);
    last.end.ready = NULL;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_OK);
    cr_assert_eq(events.n, 1);
    cr_assert_eq(events.list[0].kind, EVENT_SEALED);
}

Test(prefill_codec, an_end_without_a_seal_or_with_other_digests_is_corrupt)
{
    struct last last;
    struct prefill_events events;
    make(&last);
    last.ready.digests = last.digests;
    last.ready.n_digests = 1;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_CORRUPT);
    make(&last);
    last.end.sealed = NULL;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_CORRUPT);
    make(&last);
    last.response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT__NOT_SET;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_CORRUPT);
}

/* ---- ranked first tokens ---- */

Test(prefill_codec, first_tokens_of_a_beam_search_are_a_row)
{
    struct last last;
    struct prefill_events events;
    uint32_t ids[] = {5, 2, 8};
    float logprobs[] = {-0.5F, -1, -2};
    make(&last);
    last.first.ranked_token_ids = ids;
    last.first.ranked_logprobs = logprobs;
    last.first.n_ranked_token_ids = last.first.n_ranked_logprobs = 3;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_OK);
    const struct ranked_row *row = events.list[0].first_token.ranked;
    cr_assert(row && row->n == 3 && row->ids[2] == 8);
    cr_assert_eq(row->logprobs[1], -1);
    last.first.n_ranked_logprobs = 2;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_CORRUPT);
    last.first.n_ranked_token_ids = 0;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_CORRUPT);
}

Test(prefill_codec, a_row_of_first_tokens_is_bounded)
{
    static uint32_t ids[RANKED_ROW_MAX + 1];
    static float logprobs[RANKED_ROW_MAX + 1];
    struct last last;
    struct prefill_events events;
    make(&last);
    last.first.ranked_token_ids = ids;
    last.first.ranked_logprobs = logprobs;
    last.first.n_ranked_token_ids = last.first.n_ranked_logprobs = RANKED_ROW_MAX + 1;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_CORRUPT);
    last.first.n_ranked_token_ids = last.first.n_ranked_logprobs = RANKED_ROW_MAX;
    cr_assert_eq(prefill_events_decode(&last.response, &scratch, &events), STATUS_OK);
}
