/* gen_engine: usage and timing are right when the prompt's KV is here and at the end, also for a reply of one token, which needs
 * no KV. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

Test(figures, tells_the_figures_once_with_the_first_token_after_the_prompts_kv)
{
    struct gen_rig rig;
    struct rig_client fetched = {0}, computed = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &fetched, "a", 35, 4);
    gen_rig_hand_over(&rig, 9);
    cr_assert_eq(fetched.n_told, 0, "the KV is not here yet");
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&fetched, STATUS_OK);
    cr_assert_eq(fetched.n_told, 1);
    cr_assert_eq(fetched.told_at, 1);
    cr_assert_eq(fetched.told.timing.kv_bytes_received, 5 * rig.block_bytes);
    cr_assert_eq(fetched.told.timing.prefill_us, 7);
    cr_assert_str_eq(fetched.told.context_worker, "ctx:1");
    cr_assert_eq(fetched.told.place, GEN_PLACE_CONTEXT_WORKER);

    const struct sampling_params sampling = gen_rig_sampling(3);
    struct gen_request request = gen_rig_request("b", 5, 20, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &computed, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&computed, STATUS_OK);
    cr_assert_eq(computed.n_told, 1);
    cr_assert_eq(computed.told_at, 0);
    cr_assert_eq(computed.told.prompt_tokens, 20);
    cr_assert_eq(computed.told.timing.kv_tokens_recomputed, 20);
    gen_rig_close(&rig);
}

Test(figures, cached_tokens_are_those_that_neither_worker_computed)
{
    struct gen_rig rig;
    struct rig_client first = {0}, again = {0}, here = {0};
    struct gen_rig_options options = ROOMY;
    options.local_prefill_max_tokens = 8;
    gen_rig_open(&rig, options);
    rig.context_cached = 24; /* which is not in this worker's cache */
    gen_rig_ask(&rig, &first, "a", 35, 4);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&first, STATUS_OK);
    cr_assert_eq(first.finish.cached_tokens, 24);

    rig.context_cached = 16; /* of the 32 cached here it computed half again */
    gen_rig_ask(&rig, &again, "a2", 48, 4);
    cr_assert_eq(rig.held_tokens, 32);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&again, STATUS_OK);
    cr_assert_eq(again.finish.cached_tokens, 16);

    gen_rig_ask(&rig, &here, "a3", 48, 4); /* its end is computed here */
    gen_rig_settle(&rig);
    expect_ended(&here, STATUS_OK);
    cr_assert_eq(here.finish.cached_tokens, 40);
    cr_assert_eq(here.finish.timing.kv_tokens_recomputed, 8);
    gen_rig_close(&rig);
}

Test(figures, a_seal_with_more_cached_tokens_than_can_be_is_a_failed_hand_over)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, STRICT);
    rig.context_cached = 35;
    gen_rig_ask(&rig, &client, "a", 35, 4);
    gen_rig_hand_over(&rig, 9);
    expect_ended(&client, STATUS_TRANSFER_FAILED);
    gen_rig_close(&rig);
}

Test(figures, a_first_token_that_ends_the_request_needs_no_commit_and_has_figures)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    rig.context_cached = 16;
    gen_rig_ask(&rig, &client, "a", 35, 1);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    gen_rig_ready(&rig, 0, 4, 0);
    gen_rig_first_token(&rig, 9);
    cr_assert_eq(client.n_tokens, 1, "it was sent at once");
    gen_rig_ready(&rig, 4, 1, 0);
    gen_rig_seal(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.reason, GEN_FINISH_LENGTH);
    cr_assert_str_eq(client.finish.context_worker, "ctx:1");
    cr_assert_eq(client.finish.cached_tokens, 16);
    cr_assert_eq(client.finish.timing.queue_us, 5);
    cr_assert_eq(client.finish.timing.prefill_us, 7);
    cr_assert_eq(client.finish.timing.kv_bytes_received, 5 * rig.block_bytes);
    cr_assert_eq(client.finish.timing.kv_tokens_received, 0, "none of it was used");
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 0);
    cr_assert_eq(rig.n_cancels, 1);
    cr_assert_eq(rig.n_commits, 0);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(figures, a_first_token_that_ends_the_request_is_enough_without_the_seal)
{
    for (int i = 0; i < 3; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        gen_rig_open(&rig, i == 0 ? STRICT : ROOMY);
        gen_rig_ask(&rig, &client, "a", 35, 1);
        gen_rig_describe(&rig);
        gen_rig_first_token(&rig, 9);
        cr_assert_eq(client.n_tokens, 1);
        if (i < 2) {
            gen_rig_end(&rig, STATUS_PEER_LOST);
        } else {
            rig.now_ns += 50 * NS_PER_MS; /* silence */
            gen_rig_settle(&rig);
        }
        expect_ended(&client, STATUS_OK);
        cr_assert_eq(client.n_tokens, 1);
        expect_all_free_or_cached(&rig);
        gen_rig_close(&rig);
    }
}
