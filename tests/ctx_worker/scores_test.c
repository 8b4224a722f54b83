/* scores: a prompt that asks for log-probabilities hears each of its tokens' once, chunk by chunk before the chunk is announced; it is
 * computed whole, and its blocks serve others as any. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_PROMPT = 61, N_TOP = 4 };

static const struct ctx_rig_options ROOM = {
    .n_blocks = 64, .slots_max = 3, .queue_max = 4, .queue_limit_ns = NS_PER_S};

static void prefill(struct ctx_rig *rig, struct rig_stream *stream, const char *name,
                    bool wants_scores, uint32_t held_tokens)
{
    struct sampling_params sampling = SAMPLING_GREEDY;
    struct ctx_prefill_request request = ctx_rig_request(name, 1, N_PROMPT);
    sampling.scores_prompt = wants_scores;
    sampling.n_prompt_logprobs = wants_scores ? N_TOP : 0;
    request.input.sampling = &sampling;
    request.held_tokens = held_tokens;
    cr_assert_eq(ctx_engine_prefill(rig->engine, stream, &request, NULL), STATUS_OK);
}

static const struct prefill_event *last(const struct rig_stream *stream,
                                        enum prefill_event_kind kind)
{
    const struct prefill_event *found = NULL;
    for (uint32_t i = 0; i < stream->n_events; i++)
        if (stream->kinds[i] == kind)
            found = &stream->events[i];
    return found;
}

/* Blocks are announced behind the scores of their tokens, and the first token behind all. */
static void expect_order(const struct rig_stream *stream)
{
    uint32_t n_scored = 0;
    for (uint32_t i = 0; i < stream->n_events; i++) {
        const struct prefill_event *event = &stream->events[i];
        if (event->kind == EVENT_SCORES)
            n_scored = event->scores.first + event->scores.n;
        if (event->kind == EVENT_READY) {
            const uint32_t n = (event->ready.first_block + event->ready.n_blocks) *
                               RIG_BLOCK_TOKENS;
            cr_assert_geq(n_scored, n < N_PROMPT ? n + 1 : N_PROMPT);
        }
        if (event->kind == EVENT_FIRST_TOKEN)
            cr_assert_eq(n_scored, N_PROMPT);
    }
    cr_assert_eq(stream->n_scored, N_PROMPT);
    cr_assert(stream->scores[0].logprob == 0 && stream->scores[0].n_top == 0);
    for (uint32_t i = 1; i < N_PROMPT; i++)
        cr_assert(stream->scores[i].n_top == N_TOP && stream->scores[i].logprob < 0);
}

Test(scores, come_before_their_blocks_and_leave_no_token_out)
{
    static struct rig_stream plain, scored, again, beside, held;
    struct ctx_rig rig;
    ctx_rig_open(&rig, ROOM);
    prefill(&rig, &plain, "a", false, 0);
    ctx_rig_settle(&rig);
    cr_assert_eq(plain.n_scored, 0);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 8), STATUS_OK);

    prefill(&rig, &scored, "b", true, 0); /* what is cached is computed again */
    ctx_rig_settle(&rig);
    expect_order(&scored);
    cr_assert_eq(last(&scored, EVENT_SEALED)->sealed.cached_tokens, 0);
    cr_assert_eq(last(&scored, EVENT_FIRST_TOKEN)->first_token.token_id,
                 last(&plain, EVENT_FIRST_TOKEN)->first_token.token_id);
    cr_assert_eq(ctx_rig_commit(&rig, "b", 8), STATUS_OK);

    prefill(&rig, &held, "c", true, 16); /* of what the reader has, the scores come, too */
    ctx_rig_settle(&rig);
    cr_assert_eq(held.n_scored, N_PROMPT);
    cr_assert_arr_eq(held.scores, scored.scores, N_PROMPT * sizeof *held.scores);
    cr_assert_eq(last(&held, EVENT_ACCEPTED)->accepted.n_blocks, 6);
    cr_assert_eq(ctx_rig_commit(&rig, "c", 6), STATUS_OK);
    ctx_rig_settle(&rig);

    prefill(&rig, &again, "d", false, 0);
    prefill(&rig, &beside, "e", true, 0);
    ctx_rig_settle(&rig);
    cr_assert_gt(last(&again, EVENT_SEALED)->sealed.cached_tokens, 0, "others use its blocks");
    cr_assert_arr_eq(beside.scores, scored.scores, N_PROMPT * sizeof *beside.scores);
    ctx_rig_close(&rig);
}

Test(scores, of_a_cold_prompt_enter_the_prefix_cache)
{
    static struct rig_stream scored, again;
    struct ctx_rig rig;
    ctx_rig_open(&rig, ROOM);
    prefill(&rig, &scored, "a", true, 0);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 8), STATUS_OK);
    ctx_rig_settle(&rig);
    prefill(&rig, &again, "b", false, 0);
    ctx_rig_settle(&rig);
    cr_assert_eq(last(&again, EVENT_SEALED)->sealed.cached_tokens,
                 (N_PROMPT - 1) / RIG_BLOCK_TOKENS * RIG_BLOCK_TOKENS);
    ctx_rig_close(&rig);
}

Test(scores, that_are_not_finite_end_their_prompt_alone)
{
    static struct rig_stream bad, good;
    struct ctx_engine_stats stats;
    struct ctx_rig_options options = ROOM;
    struct ctx_rig rig;
    options.overflows = true;
    options.overflow_token = ctx_rig_request("a", 1, N_PROMPT).input.token_ids[40];
    ctx_rig_open(&rig, options);
    prefill(&rig, &bad, "a", true, 0);
    cr_assert_eq(ctx_rig_prefill(&rig, &good, "b", 1, 30), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(bad.n_finishes, 1);
    cr_assert_eq(bad.status, STATUS_LOGITS_NOT_FINITE);
    cr_assert_null(last(&bad, EVENT_FIRST_TOKEN));
    cr_assert_not_null(last(&good, EVENT_SEALED));
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.rows_not_finite, 1);
    ctx_rig_close(&rig);
}
