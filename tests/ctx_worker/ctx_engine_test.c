/* ctx_engine: every prefill ends exactly once, and its blocks are held exactly as long as its stream is open. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct ctx_rig_options ROOMY = {
    .n_blocks = 64, .slots_max = 4, .queue_max = 4, .queue_limit_ns = NS_PER_S};

static void expect_ended(const struct rig_stream *stream, enum status status)
{
    cr_assert_eq(stream->n_finishes, 1);
    cr_assert_eq(stream->status, status, "%s", status_name(stream->status));
}

static void expect_all_free_or_cached(const struct ctx_rig *rig)
{
    struct ctx_engine_stats stats;
    cr_assert_eq(ctx_rig_blocks(rig, BLOCK_FREE) + ctx_rig_blocks(rig, BLOCK_CACHED),
                 block_pool_size(rig->base.pool));
    ctx_engine_read_stats(rig->engine, &stats);
    cr_assert_eq(stats.blocks_unowned, 0);
}

Test(ctx_engine, says_accepted_ready_by_chunk_first_token_and_sealed)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    static const enum prefill_event_kind KINDS[] = {EVENT_ACCEPTED,    EVENT_READY, EVENT_READY,
                                                    EVENT_FIRST_TOKEN, EVENT_READY, EVENT_SEALED};
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 35), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(stream.n_events, 6);
    for (uint32_t i = 0; i < 6; i++)
        cr_assert_eq(stream.kinds[i], KINDS[i], "event %u", i);
    cr_assert_eq(stream.events[0].accepted.n_blocks, 5);
    cr_assert_eq(stream.events[1].ready.first_block, 0);
    cr_assert_eq(stream.events[2].ready.first_block, 2);
    cr_assert_eq(stream.events[4].ready.first_block, 4);
    cr_assert_eq(stream.events[4].ready.n_blocks, 1);
    cr_assert_eq(stream.events[5].sealed.n_tokens, 35);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_PINNED), 5);
    cr_assert_eq(stream.n_finishes, 0, "the stream is the lease: it stays open");
    ctx_rig_close(&rig);
}

Test(ctx_engine, a_granted_commit_ends_the_lease_and_fences_until_quiet)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 35), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 5), STATUS_OK);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 5), STATUS_NOT_HELD, "once");
    ctx_rig_step(&rig);
    expect_ended(&stream, STATUS_OK);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_QUARANTINED), 5);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_CACHED), 4);
    expect_all_free_or_cached(&rig);
    ctx_rig_close(&rig);
}

Test(ctx_engine, refuses_commits_of_what_it_does_not_hold)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    struct error error = {""};
    struct ctx_engine_stats stats;
    const struct held_commit stale = {.id = ctx_rig_id("a"), .incarnation = RIG_INCARNATION + 1};
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 35), STATUS_OK);
    ctx_rig_step(&rig);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 5), STATUS_NOT_HELD, "not sealed yet");
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_commit(&rig, "b", 5), STATUS_NOT_HELD);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 4), STATUS_NOT_HELD);
    cr_assert_eq(ctx_engine_commit(rig.engine, &stale, &error), STATUS_STALE_PEER);
    ctx_engine_stream_ended(rig.engine, &stream);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 5), STATUS_NOT_HELD, "the stream ended first");
    expect_ended(&stream, STATUS_CANCELLED);
    ctx_rig_settle(&rig);
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.commits_refused, 5);
    cr_assert_eq(stats.commits_ok, 0);
    ctx_rig_close(&rig);
}

Test(ctx_engine, stops_computing_when_the_reader_leaves)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    struct ctx_engine_stats stats;
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 120), STATUS_OK);
    ctx_rig_step(&rig);
    ctx_engine_stream_ended(rig.engine, &stream);
    ctx_rig_settle(&rig);
    expect_ended(&stream, STATUS_CANCELLED);
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.prompt_tokens_computed, 16, "one chunk");
    expect_all_free_or_cached(&rig);
    ctx_engine_stream_ended(rig.engine, &stream); /* late: ignored */
    ctx_rig_settle(&rig);
    cr_assert_eq(stream.n_finishes, 1);
    ctx_rig_close(&rig);
}

Test(ctx_engine, ends_leases_and_waits_at_the_deadline)
{
    struct ctx_rig rig;
    struct rig_stream held = {0}, queued = {0}, dead = {0};
    ctx_rig_open(&rig,
                 (struct ctx_rig_options){
                     .n_blocks = 64, .slots_max = 1, .queue_max = 4, .queue_limit_ns = NS_PER_S});
    struct ctx_prefill_request request = ctx_rig_request("a", 1, 20);
    request.input.deadline_ns = rig.now_ns + 50;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &held, &request, NULL), STATUS_OK);
    ctx_rig_settle(&rig);
    request = ctx_rig_request("b", 2, 20);
    request.input.deadline_ns = rig.now_ns + 40;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &queued, &request, NULL), STATUS_OK);
    request = ctx_rig_request("c", 3, 20);
    request.input.deadline_ns = rig.now_ns;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &dead, &request, NULL), STATUS_OK);
    cr_assert_eq(ctx_engine_step(rig.engine, rig.now_ns), rig.now_ns + 40, "its next timer");
    expect_ended(&dead, STATUS_TIMED_OUT);
    rig.now_ns += 40;
    ctx_rig_settle(&rig);
    expect_ended(&queued, STATUS_TIMED_OUT);
    rig.now_ns += 10;
    ctx_rig_settle(&rig);
    expect_ended(&held, STATUS_TIMED_OUT);
    expect_all_free_or_cached(&rig);
    ctx_rig_close(&rig);
}

Test(ctx_engine, a_full_pool_makes_prompts_wait_and_then_refuses_them)
{
    struct ctx_rig rig;
    struct rig_stream first = {0}, second = {0}, huge = {0}, third = {0};
    ctx_rig_open(&rig, (struct ctx_rig_options){
                           .n_blocks = 8, .slots_max = 4, .queue_max = 4, .queue_limit_ns = 100});
    cr_assert_eq(ctx_rig_prefill(&rig, &first, "a", 1, 48), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &second, "b", 2, 48), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &huge, "c", 3, 65), STATUS_OK);
    ctx_rig_settle(&rig);
    expect_ended(&huge, STATUS_NO_BLOCKS);
    cr_assert_eq(second.n_finishes + second.n_events, 0, "it waits");
    rig.now_ns += 100;
    ctx_rig_settle(&rig);
    expect_ended(&second, STATUS_NO_BLOCKS);
    cr_assert_eq(ctx_rig_prefill(&rig, &third, "d", 4, 48), STATUS_OK);
    ctx_engine_stream_ended(rig.engine, &first);
    ctx_rig_settle(&rig);
    cr_assert_eq(third.kinds[third.n_events - 1], EVENT_SEALED, "freed blocks serve the next");
    ctx_rig_close(&rig);
}

Test(ctx_engine, who_waited_for_a_place_is_told_that_and_not_that_blocks_were_lacking)
{
    struct ctx_rig rig;
    struct rig_stream first = {0}, second = {0};
    ctx_rig_open(&rig, (struct ctx_rig_options){
                           .n_blocks = 64, .slots_max = 1, .queue_max = 4, .queue_limit_ns = 100});
    cr_assert_eq(ctx_rig_prefill(&rig, &first, "a", 1, 48), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &second, "b", 2, 48), STATUS_OK);
    ctx_rig_settle(&rig);
    rig.now_ns += 100;
    ctx_rig_settle(&rig);
    expect_ended(&second, STATUS_QUEUE_FULL);
    cr_assert_eq(first.n_finishes, 0);
    ctx_rig_close(&rig);
}

Test(ctx_engine, a_prompt_whose_beginning_is_held_already_needs_room_for_the_rest_only)
{
    struct ctx_rig rig;
    struct rig_stream first = {0}, like_it = {0}, unlike_it = {0};
    ctx_rig_open(&rig,
                 (struct ctx_rig_options){
                     .n_blocks = 10, .slots_max = 4, .queue_max = 4, .queue_limit_ns = NS_PER_S});
    cr_assert_eq(ctx_rig_prefill(&rig, &first, "a", 1, 64), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_prefill(&rig, &like_it, "b", 1, 64), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &unlike_it, "c", 2, 64), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(like_it.kinds[like_it.n_events - 1], EVENT_SEALED, "one block of its own");
    cr_assert_eq(unlike_it.n_events, 0, "it waits for eight");
    ctx_engine_stream_ended(rig.engine, &first);
    ctx_engine_stream_ended(rig.engine, &like_it);
    ctx_rig_settle(&rig);
    cr_assert_eq(unlike_it.kinds[unlike_it.n_events - 1], EVENT_SEALED);
    ctx_rig_close(&rig);
}

/* The longer prompt has a copy of the beginning that the shorter one left in the cache, above what it holds. */
Test(ctx_engine, cached_blocks_above_held_ones_are_room_too)
{
    struct ctx_rig rig;
    struct rig_stream shorter = {0}, longer = {0}, third = {0};
    ctx_rig_open(&rig,
                 (struct ctx_rig_options){
                     .n_blocks = 8, .slots_max = 4, .queue_max = 4, .queue_limit_ns = NS_PER_S});
    cr_assert_eq(ctx_rig_prefill(&rig, &shorter, "s", 1, 16), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &longer, "l", 1, 40), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(longer.kinds[longer.n_events - 1], EVENT_SEALED);
    ctx_engine_stream_ended(rig.engine, &shorter);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_CACHED), 2,
                 "nobody holds them, and they are no leaves");
    cr_assert_eq(ctx_rig_prefill(&rig, &third, "t", 2, 24), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_gt(third.n_events, 0, "it waits");
    cr_assert_eq(third.kinds[third.n_events - 1], EVENT_SEALED);
    ctx_rig_close(&rig);
}

Test(ctx_engine, counts_the_tokens_that_wait_to_be_computed)
{
    struct ctx_rig rig;
    struct rig_stream running = {0}, queued = {0};
    struct ctx_engine_stats stats;
    ctx_rig_open(&rig,
                 (struct ctx_rig_options){
                     .n_blocks = 64, .slots_max = 1, .queue_max = 4, .queue_limit_ns = NS_PER_S});
    cr_assert_eq(ctx_rig_prefill(&rig, &running, "a", 1, 120), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &queued, "b", 2, 20), STATUS_OK);
    ctx_rig_step(&rig);
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.waiting_tokens, 120 - 16 + 20, "one chunk of 16 is computed");
    cr_assert_eq(stats.computing_tokens, 120, "who waits is none of them");
    cr_assert_eq(stats.computed_tokens, 16);
    ctx_engine_stream_ended(rig.engine, &queued);
    ctx_rig_settle(&rig);
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.waiting_tokens, 0);
    cr_assert_eq(stats.computing_tokens + stats.computed_tokens, 0);
    ctx_rig_close(&rig);
}

Test(ctx_engine, a_block_that_nobody_gives_back_is_noticed)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    struct ctx_engine_stats stats;
    block_id lost;
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(block_pool_acquire(rig.base.pool, 1, &lost), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 35), STATUS_OK);
    ctx_rig_settle(&rig);
    rig.now_ns += NS_PER_S;
    ctx_rig_step(&rig);
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.sealed, 1);
    cr_assert_eq(stats.blocks_unowned, 1, "those of the prompt are owned");
    block_pool_release(rig.base.pool, &lost, 1);
    ctx_engine_stream_ended(rig.engine, &stream);
    ctx_rig_settle(&rig);
    expect_all_free_or_cached(&rig);
    ctx_rig_close(&rig);
}

Test(ctx_engine, a_full_queue_refuses_at_once)
{
    struct ctx_rig rig;
    struct rig_stream streams[4] = {0};
    static const char *const NAMES[] = {"a", "b", "c", "d"};
    ctx_rig_open(&rig, (struct ctx_rig_options){
                           .n_blocks = 64, .slots_max = 1, .queue_max = 2, .queue_limit_ns = 100});
    cr_assert_eq(ctx_rig_prefill(&rig, &streams[0], NAMES[0], 1, 10), STATUS_OK);
    ctx_rig_settle(&rig);
    for (uint32_t i = 1; i < 4; i++)
        cr_assert_eq(ctx_rig_prefill(&rig, &streams[i], NAMES[i], i, 10), STATUS_OK);
    ctx_rig_settle(&rig);
    expect_ended(&streams[3], STATUS_QUEUE_FULL);
    cr_assert_eq(streams[1].n_finishes + streams[2].n_finishes, 0);
    ctx_rig_close(&rig);
}

Test(ctx_engine, a_live_request_id_or_transfer_id_is_taken)
{
    struct ctx_rig rig;
    struct rig_stream first = {0}, same_request = {0}, same_transfer = {0};
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &first, "a", 1, 20), STATUS_OK);
    ctx_rig_settle(&rig);
    struct ctx_prefill_request request = ctx_rig_request("a", 1, 20);
    request.transfer_id = ctx_rig_id("other");
    cr_assert_eq(ctx_engine_prefill(rig.engine, &same_request, &request, NULL), STATUS_OK);
    request = ctx_rig_request("b", 1, 20);
    request.transfer_id = ctx_rig_id("a");
    cr_assert_eq(ctx_engine_prefill(rig.engine, &same_transfer, &request, NULL), STATUS_OK);
    ctx_rig_settle(&rig);
    expect_ended(&same_request, STATUS_DUPLICATE_REQUEST);
    expect_ended(&same_transfer, STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(first.n_finishes, 0);
    ctx_rig_close(&rig);
}

Test(ctx_engine, aborts_what_it_finds)
{
    struct ctx_rig rig;
    struct rig_stream sealed = {0}, running = {0}, queued = {0};
    struct rig_call calls[4] = {0};
    ctx_rig_open(&rig, (struct ctx_rig_options){
                           .n_blocks = 64, .slots_max = 2, .queue_max = 2, .queue_limit_ns = 100});
    cr_assert_eq(ctx_rig_prefill(&rig, &sealed, "a", 1, 10), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_prefill(&rig, &running, "b", 2, 120), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &queued, "c", 3, 10), STATUS_OK);
    ctx_rig_step(&rig);
    cr_assert_eq(ctx_engine_abort(rig.engine, &calls[0], "a"), STATUS_OK);
    cr_assert_eq(ctx_engine_abort(rig.engine, &calls[2], "c"), STATUS_OK);
    cr_assert_eq(ctx_engine_abort(rig.engine, &calls[1], "b"), STATUS_OK);
    cr_assert_eq(ctx_engine_abort(rig.engine, &calls[3], "nobody"), STATUS_OK);
    cr_assert_eq(ctx_engine_abort(rig.engine, &calls[3], "one too many"), STATUS_QUEUE_FULL);
    ctx_rig_settle(&rig);
    cr_assert_eq(calls[0].found, CTX_FOUND_SEALED);
    cr_assert_eq(calls[1].found, CTX_FOUND_RUNNING);
    cr_assert_eq(calls[2].found, CTX_FOUND_QUEUED);
    cr_assert_eq(calls[3].found, CTX_FOUND_NOTHING);
    expect_ended(&sealed, STATUS_CANCELLED);
    expect_ended(&running, STATUS_CANCELLED);
    expect_ended(&queued, STATUS_CANCELLED);
    expect_all_free_or_cached(&rig);
    ctx_rig_close(&rig);
}

Test(ctx_engine, drains_and_stops)
{
    struct ctx_rig rig;
    struct rig_stream old = {0}, new = {0};
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &old, "a", 1, 60), STATUS_OK);
    ctx_rig_step(&rig);
    ctx_engine_drain(rig.engine);
    ctx_rig_step(&rig);
    cr_assert_eq(ctx_rig_prefill(&rig, &new, "b", 2, 20), STATUS_OK);
    ctx_rig_settle(&rig);
    expect_ended(&new, STATUS_DRAINING);
    cr_assert_eq(old.kinds[old.n_events - 1], EVENT_SEALED, "the old one goes on");
    ctx_engine_stop(rig.engine);
    ctx_rig_settle(&rig);
    expect_ended(&old, STATUS_DRAINING);
    expect_all_free_or_cached(&rig);
    ctx_rig_close(&rig);
}

Test(ctx_engine, publishes_a_known_prefix_at_once_and_only_what_is_not_held)
{
    struct ctx_rig rig;
    struct rig_stream first = {0}, again = {0}, holder = {0};
    struct rig_call flush = {0};
    ctx_rig_open(&rig, ROOMY);
    cr_assert_eq(ctx_rig_prefill(&rig, &first, "a", 1, 64), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_prefill(&rig, &again, "b", 1, 64), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(again.events[1].ready.n_blocks, 7, "all but the block of the last token");
    cr_assert_eq(again.events[again.n_events - 1].sealed.cached_tokens, 56);
    cr_assert_eq(again.events[2].first_token.token_id,
                 first.events[first.n_events - 3].first_token.token_id);

    struct ctx_prefill_request request = ctx_rig_request("c", 1, 64);
    request.held_tokens = 56;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &holder, &request, NULL), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(holder.events[0].accepted.n_blocks, 1);
    cr_assert_eq(holder.events[2].ready.first_block, 7);

    ctx_engine_stop(rig.engine);
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_engine_flush(rig.engine, &flush), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(flush.n_evicted, 8);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_FREE), 64);
    ctx_rig_close(&rig);
}

Test(ctx_engine, refuses_bad_requests_in_words)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    struct error error;
    char long_id[ENGINE_REQUEST_ID_MAX + 2];
    struct sampling_params bad_sampling = SAMPLING_GREEDY;
    bad_sampling.temperature = -1;
    memset(long_id, 'x', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = '\0';
    ctx_rig_open(&rig, ROOMY);
    for (uint32_t i = 0; i < 9; i++) {
        struct ctx_prefill_request request = ctx_rig_request("a", 1, i == 2 ? 129 : 20);
        uint32_t outside[] = {3, 96};
        enum status expected = i == 2 ? STATUS_PROMPT_TOO_LONG : STATUS_INVALID_ARGUMENT;
        if (i == 0)
            request.input.request_id = "";
        if (i == 1)
            request.input.request_id = long_id;
        if (i == 3)
            request.input.n_tokens = 0;
        if (i == 4)
            request.held_tokens = 7;
        if (i == 5)
            request.held_tokens = 24;
        if (i == 6) {
            request.input.token_ids = outside;
            request.input.n_tokens = 2;
        }
        if (i == 7)
            request.input.sampling = &bad_sampling;
        if (i == 8) {
            request.callee_incarnation++;
            expected = STATUS_STALE_PEER;
        }
        error.text[0] = '\0';
        cr_assert_eq(ctx_engine_prefill(rig.engine, &stream, &request, &error), expected, "%u", i);
        cr_assert_neq(error.text[0], '\0', "case %u says nothing", i);
    }
    cr_assert_eq(stream.n_finishes, 0);
    ctx_rig_close(&rig);
}

/* Runs steps in which a block takes that long, until the prompt is sealed. Returns how many. */
static uint32_t compute_slowly(struct ctx_rig *rig, const struct rig_stream *stream,
                               uint64_t block_ns)
{
    struct ctx_engine_stats before, stats;
    uint32_t n_steps = 0;
    ctx_engine_read_stats(rig->engine, &before);
    while (stream->n_events == 0 || stream->kinds[stream->n_events - 1] != EVENT_SEALED) {
        ctx_rig_step(rig);
        ctx_engine_read_stats(rig->engine, &stats);
        uint64_t n_tokens = stats.prompt_tokens_computed - before.prompt_tokens_computed;
        rig->now_ns += n_tokens * block_ns / RIG_BLOCK_TOKENS;
        before = stats;
        cr_assert_lt(n_steps++, 100);
    }
    return n_steps;
}

Test(ctx_engine,
     on_a_slow_machine_a_prompt_comes_block_by_block_and_says_once_a_second_how_long_it_takes)
{
    /* Chunks are two blocks at most, and one takes longer than a step should: 400 ms, 50 a token. */
    struct ctx_rig rig;
    struct rig_stream stream = {0}, waits = {0}, deaf = {0};
    struct ctx_rig_options options = ROOMY;
    options.slots_max = 1;
    options.step_target_ns = 300 * NS_PER_MS;
    ctx_rig_open(&rig, options);
    struct ctx_prefill_request request = ctx_rig_request("a", 1, 64);
    request.takes_backlog = true;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &stream, &request, NULL), STATUS_OK);
    cr_assert_eq(compute_slowly(&rig, &stream, 400 * NS_PER_MS), 8);
    static const enum prefill_event_kind KINDS[] = {
        EVENT_ACCEPTED,    EVENT_READY,   EVENT_BACKLOG, EVENT_READY, EVENT_READY,
        EVENT_READY,       EVENT_BACKLOG, EVENT_READY,   EVENT_READY, EVENT_READY,
        EVENT_FIRST_TOKEN, EVENT_READY,   EVENT_SEALED};
    cr_assert_eq(stream.n_events, sizeof KINDS / sizeof *KINDS);
    for (uint32_t i = 0; i < stream.n_events; i++) {
        cr_assert_eq(stream.kinds[i], KINDS[i], "event %u", i);
        if (stream.kinds[i] == EVENT_READY)
            cr_assert_eq(stream.events[i].ready.n_blocks, 1);
    }
    cr_assert_eq(stream.events[2].backlog.token_ns, 50 * NS_PER_MS);
    cr_assert_eq(stream.events[2].backlog.n_tokens, 56);
    cr_assert_eq(stream.events[6].backlog.n_tokens, 32,
                 "1.2 s later; 8 tokens are no second any more");

    /* While its reader holds the slot, others wait and get backlogs, but for a reader that does not know them. */
    request = ctx_rig_request("b", 2, 40);
    request.takes_backlog = true;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &waits, &request, NULL), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &deaf, "c", 3, 24), STATUS_OK);
    ctx_rig_step(&rig);
    cr_assert_eq(waits.n_events, 1);
    cr_assert_eq(waits.kinds[0], EVENT_BACKLOG);
    cr_assert_eq(waits.events[0].backlog.n_tokens, 64);
    cr_assert_eq(deaf.n_events, 0);
    ctx_rig_close(&rig);
}

Test(ctx_engine, on_a_fast_machine_chunks_are_as_long_as_they_may)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0}, next = {0};
    struct ctx_rig_options options = ROOMY;
    options.step_target_ns = 300 * NS_PER_MS;
    ctx_rig_open(&rig, options);
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 64), STATUS_OK);
    cr_assert_eq(compute_slowly(&rig, &stream, NS_PER_MS), 5, "a block, then two at a time");
    ctx_rig_step(&rig);
    cr_assert_eq(ctx_rig_prefill(&rig, &next, "b", 2, 64), STATUS_OK);
    cr_assert_eq(compute_slowly(&rig, &next, NS_PER_MS), 4);
    ctx_rig_close(&rig);
}
