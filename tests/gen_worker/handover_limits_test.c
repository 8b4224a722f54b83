/* handover: a hand-over ends in time, however the context worker spreads its events, and an honest context worker gets the time
 * that it needs. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

/* Announces blocks one by one until the request has ended; the time that this took. */
static uint64_t trickle(struct gen_rig *rig, const struct rig_client *client, uint64_t pause_ns,
                        uint32_t n_blocks)
{
    const uint64_t began_ns = rig->now_ns;
    for (uint32_t i = 0; i < n_blocks && client->n_finishes == 0; i++) {
        rig->now_ns += pause_ns;
        gen_rig_settle(rig);
        if (client->n_finishes == 0)
            gen_rig_ready(rig, i, 1, 0);
    }
    return rig->now_ns - began_ns;
}

Test(handover_limits, a_context_worker_that_announces_too_little_is_left)
{
    /* 16 blocks, and 4 are due in each 50 ms: one in 20 ms is too slow, one in 12 ms is not. */
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 124, 3);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    cr_assert_leq(trickle(&rig, &client, 20 * NS_PER_MS, 16), 60 * NS_PER_MS);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 124);
    gen_rig_close(&rig);
}

Test(handover_limits, a_context_worker_that_keeps_the_pace_is_waited_for)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 124, 3);
    rig.now_ns += 49 * NS_PER_MS;
    gen_rig_describe(&rig);
    rig.now_ns += 49 * NS_PER_MS;
    gen_rig_accept(&rig);
    cr_assert_eq(trickle(&rig, &client, 12 * NS_PER_MS, 16), 192 * NS_PER_MS);
    rig.now_ns += 49 * NS_PER_MS;
    gen_rig_first_token(&rig, 9);
    gen_rig_seal(&rig);
    cr_assert_eq(rig.n_commits, 1);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_received, 124);
    gen_rig_close(&rig);
}

/* A request of 16 blocks that waits in the queue of a context worker, which reports its backlog. */
static void ask_slow(struct gen_rig *rig, struct rig_client *client, struct backlog backlog)
{
    gen_rig_open(rig, ROOMY);
    gen_rig_ask(rig, client, "a", 124, 3);
    gen_rig_describe(rig);
    gen_rig_backlog(rig, backlog);
}

/* As trickle, with a backlog for each block. */
static uint64_t trickle_slowly(struct gen_rig *rig, const struct rig_client *client,
                               uint64_t pause_ns, uint32_t n_blocks, struct backlog backlog)
{
    const uint64_t began_ns = rig->now_ns;
    for (uint32_t i = 0; i < n_blocks && client->n_finishes == 0; i++) {
        gen_rig_backlog(rig, backlog);
        rig->now_ns += pause_ns;
        gen_rig_settle(rig);
        if (client->n_finishes == 0)
            gen_rig_ready(rig, i, 1, 0);
    }
    return rig->now_ns - began_ns;
}

Test(handover_limits, a_context_worker_that_says_how_slow_it_is_is_waited_for)
{
    /* A block in 20 ms, 2.5 ms a token: 320 ms, where the timeouts without a backlog allow 200. */
    const struct backlog backlog = {.token_ns = 2500 * NS_PER_US, .n_tokens = 124};
    struct gen_rig rig;
    struct rig_client client = {0};
    ask_slow(&rig, &client, backlog);
    gen_rig_accept(&rig);
    cr_assert_eq(trickle_slowly(&rig, &client, 20 * NS_PER_MS, 16, backlog), 320 * NS_PER_MS);
    gen_rig_first_token(&rig, 9);
    gen_rig_seal(&rig);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_received, 124);
    gen_rig_close(&rig);
}

Test(handover_limits, so_is_one_whose_queue_is_long_as_long_as_it_says_so)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    ask_slow(&rig, &client, (struct backlog){.token_ns = NS_PER_MS, .n_tokens = 70});
    for (int i = 0; i < 8; i++) {
        rig.now_ns += 49 * NS_PER_MS;
        gen_rig_settle(&rig);
        cr_assert_eq(client.n_finishes, 0);
        gen_rig_backlog(&rig, (struct backlog){.token_ns = NS_PER_MS, .n_tokens = 70});
    }
    rig.now_ns += 9 * NS_PER_MS; /* 401 in all: over the maximum */
    gen_rig_settle(&rig);
    cr_assert_eq(rig.n_cancels, 1);
    gen_rig_close(&rig);
}

Test(handover_limits, and_one_that_falls_silent_is_left_whatever_it_has_said)
{
    static const struct backlog SAID[] = {{NS_PER_S, 3600}, {20 * NS_PER_MS, 1}};
    static const uint64_t THEN_NS[] = {50 * NS_PER_MS, 40 * NS_PER_MS}; /* the limit; twice 20 */
    for (size_t i = 0; i < sizeof SAID / sizeof *SAID; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        ask_slow(&rig, &client, SAID[i]);
        rig.now_ns += 45 * NS_PER_MS;
        gen_rig_settle(&rig);
        gen_rig_backlog(&rig, SAID[i]);
        rig.now_ns += THEN_NS[i] - 1;
        gen_rig_settle(&rig);
        cr_assert_eq(rig.n_cancels, 0, "%zu", i);
        rig.now_ns += 1;
        gen_rig_settle(&rig);
        cr_assert_eq(rig.n_cancels, 1, "%zu", i);
        gen_rig_close(&rig);
    }
}

Test(handover_limits, a_lie_about_it_holds_nobody_for_longer_than_the_most_that_is_allowed)
{
    static const struct backlog LIES[] = {
        {UINT64_MAX, UINT64_MAX}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {NS_PER_S, 3600}};
    for (size_t i = 0; i < sizeof LIES / sizeof *LIES; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        ask_slow(&rig, &client, LIES[i]);
        gen_rig_accept(&rig);
        uint64_t ns = trickle_slowly(&rig, &client, 45 * NS_PER_MS, 16, LIES[i]);
        cr_assert_geq(ns, 400 * NS_PER_MS, "lie %zu", i);
        cr_assert_leq(ns, 450 * NS_PER_MS, "lie %zu", i);
        expect_ended(&client, STATUS_OK);
        cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 124);
        gen_rig_close(&rig);
    }
}

Test(handover_limits, who_says_nothing_of_it_or_that_it_is_fast_has_the_limit_for_all)
{
    static const struct backlog TOLD[] = {{0, 0}, {0, UINT64_MAX}, {UINT64_MAX, 0}, {1, 124}};
    for (size_t i = 0; i < sizeof TOLD / sizeof *TOLD; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        ask_slow(&rig, &client, TOLD[i]);
        gen_rig_accept(&rig);
        cr_assert_leq(trickle(&rig, &client, 20 * NS_PER_MS, 16), 60 * NS_PER_MS, "%zu", i);
        expect_ended(&client, STATUS_OK);
        gen_rig_close(&rig);
    }
}

Test(handover_limits, who_has_announced_all_gets_no_time_for_the_seal_by_saying_that_it_is_slow)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    ask_slow(&rig, &client, (struct backlog){0, 0});
    gen_rig_accept(&rig);
    gen_rig_ready(&rig, 0, 16, 0);
    gen_rig_first_token(&rig, 9);
    gen_rig_backlog(&rig, (struct backlog){NS_PER_S, 3600});
    rig.now_ns += 51 * NS_PER_MS;
    gen_rig_settle(&rig);
    cr_assert_eq(rig.n_cancels, 1, "its hand-over is given up");
    gen_rig_close(&rig);
}

Test(handover_limits, who_says_it_without_end_is_left_at_once)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    ask_slow(&rig, &client, (struct backlog){NS_PER_S, 3600});
    for (int i = 0; i < 100 && rig.n_cancels == 0; i++)
        gen_rig_backlog(&rig, (struct backlog){NS_PER_S, 3600});
    cr_assert_eq(rig.n_cancels, 1);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 124);
    gen_rig_close(&rig);
}

Test(handover_limits, announcing_more_buys_no_time_for_what_does_not_arrive)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 124, 3);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    sim_transport_stall(rig.owner_transport, UINT64_MAX);
    cr_assert_leq(trickle(&rig, &client, 5 * NS_PER_MS, 16), 35 * NS_PER_MS);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 124);
    for (int i = 0; i < 2; i++) { /* the endpoint is closed by force */
        rig.now_ns += NS_PER_S;
        gen_rig_settle(&rig);
    }
    gen_rig_close(&rig);
}

Test(handover_limits, a_context_worker_is_told_what_the_steps_of_its_reader_take)
{
    struct gen_rig rig;
    struct rig_client first = {0}, second = {0}, third = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &first, "a", 124, 3);
    cr_assert_eq(rig.step_ns, 0, "there was none");
    gen_rig_describe(&rig);
    rig.now_ns += 50 * NS_PER_MS; /* it says nothing: the prompt is computed here */
    gen_rig_step(&rig);
    rig.now_ns += 8 * NS_PER_S;
    gen_rig_step(&rig);
    gen_rig_ask(&rig, &second, "b", 124, 3);
    cr_assert_geq(rig.step_ns, 7 * NS_PER_S);
    cr_assert_leq(rig.step_ns, 8 * NS_PER_S);
    gen_rig_settle(&rig); /* in steps that take no time */
    expect_ended(&first, STATUS_OK);
    for (int i = 0; i < 4; i++) {
        rig.now_ns += 50 * NS_PER_MS;
        gen_rig_settle(&rig);
    }
    gen_rig_ask(&rig, &third, "c", 124, 3);
    cr_assert_leq(rig.step_ns, 4 * NS_PER_S, "it is forgotten");
    gen_rig_close(&rig);
}
