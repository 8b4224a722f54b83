/* ctx_engine: during a step of any length, readers get backlogs while its layers get done, whenever their prompts arrived, and a
 * commit is answered. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>

enum { N_LAYERS = 2 }; /* of the rig's model */

static const struct ctx_rig_options ROOMY = {.n_blocks = 64,
                                             .slots_max = 4,
                                             .queue_max = 8,
                                             .queue_limit_ns = 3600 * NS_PER_S,
                                             .step_target_ns = 300 * NS_PER_MS};

static void ask(struct ctx_rig *rig, struct rig_stream *stream, const char *name, uint32_t n_tokens)
{
    struct ctx_prefill_request request = ctx_rig_request(name, (uint32_t)name[0], n_tokens);
    request.takes_backlog = true;
    cr_assert_eq(ctx_engine_prefill(rig->engine, stream, &request, NULL), STATUS_OK);
}

static void expect_events(const struct rig_stream *stream, const enum prefill_event_kind *kinds,
                          uint32_t n)
{
    cr_assert_eq(stream->n_events, n);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(stream->kinds[i], kinds[i], "event %u", i);
}

Test(slow_step, the_first_step_of_all_is_told_behind_each_of_its_layers)
{
    static const enum prefill_event_kind KINDS[] = {EVENT_ACCEPTED, EVENT_BACKLOG, EVENT_BACKLOG,
                                                    EVENT_READY};
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    rig.layer_ns = 20 * NS_PER_S;
    ask(&rig, &stream, "a", 64);
    ctx_rig_step(&rig);
    expect_events(&stream, KINDS, 4);
    for (uint32_t i = 1; i <= N_LAYERS; i++) { /* of 8 tokens, in 40 s */
        cr_assert_eq(stream.events[i].backlog.token_ns, 5 * NS_PER_S, "layer %u", i);
        cr_assert_eq(stream.events[i].backlog.n_tokens, 64, "layer %u", i);
    }
    ctx_rig_close(&rig);
}

Test(slow_step, so_is_one_that_takes_far_longer_than_those_before)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    ask(&rig, &stream, "a", 72);
    rig.layer_ns = 100 * NS_PER_MS;
    ctx_rig_step(&rig);
    uint32_t n_before = stream.n_events;
    rig.layer_ns = 20 * NS_PER_S;
    ctx_rig_step(&rig);
    cr_assert_eq(stream.kinds[n_before], EVENT_BACKLOG, "200 ms a block: 1.6 s");
    cr_assert_eq(stream.events[n_before].backlog.token_ns, 25 * NS_PER_MS);
    cr_assert_eq(stream.kinds[n_before + 1], EVENT_BACKLOG);
    cr_assert_geq(stream.events[n_before + 1].backlog.token_ns, 2 * NS_PER_S);
    ctx_rig_close(&rig);
}

Test(slow_step, a_step_of_less_than_a_second_says_nothing_by_itself)
{
    static const enum prefill_event_kind KINDS[] = {EVENT_ACCEPTED, EVENT_READY};
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    rig.layer_ns = 499 * NS_PER_MS;
    ask(&rig, &stream, "a", 64);
    ctx_rig_step(&rig);
    expect_events(&stream, KINDS, 2);
    ctx_rig_close(&rig);
}

Test(slow_step, who_does_not_know_the_word_is_not_told)
{
    static const enum prefill_event_kind KINDS[] = {EVENT_ACCEPTED, EVENT_READY};
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    rig.layer_ns = 20 * NS_PER_S;
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 64), STATUS_OK);
    ctx_rig_step(&rig);
    expect_events(&stream, KINDS, 2);
    ctx_rig_close(&rig);
}

static struct rig_stream newcomer, deaf_newcomer;

/* After the first layer. */
static void come_meanwhile(struct ctx_rig *rig)
{
    if (rig->now_ns < 20 * NS_PER_S)
        return;
    rig->meanwhile = NULL;
    cr_assert_eq(ctx_rig_prefill(rig, &deaf_newcomer, "c", 3, 24), STATUS_OK);
    ask(rig, &newcomer, "b", 40);
}

Test(slow_step, who_comes_during_a_step_is_told_before_it_ends)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    rig.layer_ns = 20 * NS_PER_S;
    rig.meanwhile = come_meanwhile;
    ask(&rig, &stream, "a", 64);
    ctx_rig_step(&rig);
    cr_assert_null(rig.meanwhile);
    cr_assert_geq(newcomer.n_events, 1);
    cr_assert_eq(newcomer.kinds[0], EVENT_BACKLOG);
    cr_assert_eq(newcomer.events[0].backlog.n_tokens, 64 + 24 + 40, "its own among them");
    cr_assert_eq(newcomer.events[0].backlog.token_ns, 5 * NS_PER_S);
    cr_assert_eq(deaf_newcomer.n_events, 0);
    rig.layer_ns = 0;
    ctx_rig_settle(&rig);
    cr_assert_eq(newcomer.kinds[newcomer.n_events - 1], EVENT_SEALED, "and served");
    ctx_rig_close(&rig);
}

static enum status answer;

static void commit_meanwhile(struct ctx_rig *rig)
{
    rig->meanwhile = NULL;
    answer = ctx_rig_commit(rig, "a", 2);
}

Test(slow_step, a_commit_is_answered_during_a_step_and_its_stream_ends_behind_it)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0}, next = {0};
    ctx_rig_open(&rig, ROOMY);
    ask(&rig, &stream, "a", 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(stream.kinds[stream.n_events - 1], EVENT_SEALED);
    rig.layer_ns = 20 * NS_PER_S;
    rig.meanwhile = commit_meanwhile;
    answer = STATUS_TIMED_OUT;
    ask(&rig, &next, "b", 64);
    ctx_rig_step(&rig);
    cr_assert_eq(answer, STATUS_OK);
    cr_assert_eq(stream.n_finishes, 0, "the engine computes");
    ctx_rig_step(&rig);
    cr_assert_eq(stream.n_finishes, 1);
    cr_assert_eq(stream.status, STATUS_OK);
    ctx_rig_close(&rig);
}

static struct rig_call aborted;

static void end_meanwhile(struct ctx_rig *rig)
{
    rig->meanwhile = NULL;
    cr_assert_eq(ctx_engine_abort(rig->engine, &aborted, "a"), STATUS_OK);
    answer = ctx_rig_commit(rig, "a", 2);
}

Test(slow_step, what_ends_otherwise_behind_a_grant_ends_once)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0}, next = {0};
    ctx_rig_open(&rig, ROOMY);
    ask(&rig, &stream, "a", 16);
    ctx_rig_settle(&rig);
    ask(&rig, &next, "b", 64);
    rig.meanwhile = end_meanwhile;
    ctx_rig_step(&rig);
    cr_assert_eq(answer, STATUS_OK, "nobody has taken the abort: it is held");
    ctx_rig_step(&rig);
    cr_assert_eq(stream.n_finishes, 1);
    cr_assert_eq(stream.status, STATUS_CANCELLED, "which came first");
    ctx_rig_settle(&rig);
    cr_assert_eq(ctx_rig_commit(&rig, "a", 2), STATUS_NOT_HELD);
    ctx_rig_close(&rig);
}

/* Sealed, and the reader stays silent: returns when its lease has ended. */
static uint64_t lease_of(uint64_t reader_step_ns)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    ctx_rig_open(&rig, ROOMY);
    struct ctx_prefill_request request = ctx_rig_request("a", 1, 16);
    request.reader_step_ns = reader_step_ns;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &stream, &request, NULL), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(stream.kinds[stream.n_events - 1], EVENT_SEALED);
    const uint64_t began_ns = rig.now_ns;
    while (stream.n_finishes == 0 && rig.now_ns - began_ns < 1000 * NS_PER_S) {
        rig.now_ns += NS_PER_S;
        ctx_rig_settle(&rig);
    }
    cr_assert_eq(stream.status, STATUS_SLOW_READER);
    ctx_rig_close(&rig);
    return rig.now_ns - began_ns;
}

Test(slow_step, a_reader_that_commits_between_long_steps_has_time_for_them_but_not_for_ever)
{
    cr_assert_eq(lease_of(0), RIG_LEASE_LIMIT_NS);
    cr_assert_eq(lease_of(20 * NS_PER_S), RIG_LEASE_LIMIT_NS + 60 * NS_PER_S);
    cr_assert_eq(lease_of(UINT64_MAX), 17 * RIG_LEASE_LIMIT_NS);
    cr_assert_eq(lease_of(UINT64_MAX / 3 + 1), 17 * RIG_LEASE_LIMIT_NS);
}
