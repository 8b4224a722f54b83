/* handover: however a context worker spreads its events, a hand-over ends in time, and an honest one is
 * waited for. */
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
    /* 16 blocks, 4 of them owed within 50 ms: one in 20 ms is too little, one in 12 is not. */
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
