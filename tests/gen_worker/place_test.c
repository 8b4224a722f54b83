/* gen_engine: each prompt is reported and counted once, by where and why it was computed there. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

static void expect_place(struct gen_rig *rig, const struct rig_client *client, enum gen_place place)
{
    struct gen_engine_stats stats;
    expect_ended(client, STATUS_OK);
    cr_assert_eq(client->finish.place, place, "place %d, wanted %d", (int)client->finish.place,
                 (int)place);
    gen_engine_read_stats(rig->engine, &stats);
    cr_assert_eq(stats.prompts[place], 1);
}

/* The rig's client keeps no text: the e2e test checks the sentences. */
Test(place, what_is_too_short_or_mostly_cached_stays_here)
{
    struct gen_rig rig;
    struct rig_client few = {0}, fetched = {0}, cached = {0};
    struct gen_rig_options options = ROOMY;
    options.local_prefill_max_tokens = 8;
    gen_rig_open(&rig, options);
    gen_rig_ask(&rig, &few, "a", 8, 4);
    gen_rig_settle(&rig);
    expect_place(&rig, &few, GEN_PLACE_SHORT_PROMPT);

    gen_rig_ask(&rig, &fetched, "b", 48, 4);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_place(&rig, &fetched, GEN_PLACE_CONTEXT_WORKER);

    gen_rig_ask(&rig, &cached, "b2", 48, 4);
    gen_rig_settle(&rig);
    expect_place(&rig, &cached, GEN_PLACE_PREFIX_CACHED);
    gen_rig_close(&rig);
}

static void expect_why_local(enum gen_place named, enum gen_place told)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    const struct sampling_params sampling = gen_rig_sampling(3);
    struct gen_request request = gen_rig_request("b", 5, 20, &sampling);
    request.context_worker = "";
    request.why_local = named;
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_place(&rig, &client, told);
    gen_rig_close(&rig);
}

Test(place, why_no_context_worker_was_named_is_the_routers_word)
{
    expect_why_local(GEN_PLACE_UNKNOWN, GEN_PLACE_NO_CONTEXT_WORKER);
    expect_why_local(GEN_PLACE_NO_CONTEXT_WORKER, GEN_PLACE_NO_CONTEXT_WORKER);
    expect_why_local(GEN_PLACE_PAIR_UNFIT, GEN_PLACE_PAIR_UNFIT);
    expect_why_local(GEN_PLACE_HAND_OVER_FAILED, GEN_PLACE_HAND_OVER_FAILED);
}

Test(place, a_failed_hand_over_is_the_reason_of_what_follows_it)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 35, 4);
    gen_rig_describe(&rig);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    gen_rig_settle(&rig);
    expect_place(&rig, &client, GEN_PLACE_HAND_OVER_FAILED);
    gen_rig_close(&rig);
}

/* The router knows whether other context workers have room. */
Test(place, a_context_worker_that_takes_nothing_is_the_routers_business)
{
    static const enum status ENDS[][2] = {{STATUS_QUEUE_FULL, STATUS_NO_CONTEXT_WORKER},
                                          {STATUS_DRAINING, STATUS_NO_CONTEXT_WORKER},
                                          {STATUS_SHARE_FULL, STATUS_SHARE_FULL}};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        gen_rig_open(&rig, ROOMY);
        const struct sampling_params sampling = gen_rig_sampling(3);
        struct gen_request request = gen_rig_request("a", 'a', 35, &sampling);
        request.ends_when_context_full = true;
        cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
        gen_rig_step(&rig);
        gen_rig_end(&rig, ENDS[i][0]);
        gen_rig_settle(&rig);
        expect_ended(&client, ENDS[i][1]);
        gen_rig_close(&rig);
    }
}

Test(place, a_worker_with_all_its_hand_overs_under_way_says_so)
{
    struct gen_rig rig;
    struct rig_client slow = {0}, client = {0};
    struct gen_rig_options options = ROOMY;
    options.prefills_max = 1;
    gen_rig_open(&rig, options);
    gen_rig_ask(&rig, &slow, "a", 35, 4);
    gen_rig_describe(&rig);
    gen_rig_ask(&rig, &client, "b", 35, 4);
    gen_rig_settle(&rig);
    expect_place(&rig, &client, GEN_PLACE_HAND_OVERS_FULL);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    gen_rig_settle(&rig);
    expect_place(&rig, &slow, GEN_PLACE_HAND_OVER_FAILED);
    gen_rig_close(&rig);
}
