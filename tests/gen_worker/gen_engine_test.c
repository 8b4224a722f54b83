/* gen_engine: every request ends exactly once, and fetched KV is used only after its commit. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <string.h>

/* The tokens of a prompt that is computed here. */
static uint32_t local_tokens(const char *name, uint32_t n_prompt, uint32_t n, uint32_t *tokens_out)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    const struct sampling_params sampling = gen_rig_sampling(n);
    gen_rig_open(&rig, ROOMY);
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], n_prompt, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    memcpy(tokens_out, client.tokens, n * sizeof *tokens_out);
    gen_rig_close(&rig);
    return client.finish.timing.kv_tokens_recomputed;
}

Test(gen_engine, computes_here_without_a_context_worker)
{
    uint32_t tokens[5];
    cr_assert_eq(local_tokens("a", 35, 5, tokens), 35);
}

Test(gen_engine, fetches_commits_and_decodes)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 35, 4);
    cr_assert_eq(rig.n_starts, 1);
    gen_rig_hand_over(&rig, 9);
    cr_assert_eq(client.n_tokens, 1, "the first token does not wait for the KV");
    cr_assert_eq(client.tokens[0], 9);
    cr_assert_eq(rig.n_commits, 1);
    cr_assert_eq(rig.commit_bytes, 5 * rig.block_bytes);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_INBOUND), 5, "not to be used before the commit");

    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_tokens, 4);
    cr_assert_eq(client.finish.reason, GEN_FINISH_LENGTH);
    cr_assert_eq(client.finish.timing.kv_bytes_received, 5 * rig.block_bytes);
    cr_assert_eq(client.finish.timing.kv_tokens_received, 35);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 0);
    cr_assert_eq(rig.n_cancels, 1, "the lease ends");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(gen_engine, asks_only_for_what_its_prefix_cache_lacks)
{
    struct gen_rig rig;
    struct rig_client first = {0}, again = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &first, "a", 35, 4);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    gen_rig_ask(&rig, &again, "a", 48, 4);
    cr_assert_eq(rig.held_tokens, 32, "the same beginning");
    gen_rig_hand_over(&rig, 9);
    cr_assert_eq(rig.commit_bytes, 2 * rig.block_bytes);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&again, STATUS_OK);
    cr_assert_eq(again.finish.timing.kv_tokens_received, 16);
    gen_rig_close(&rig);
}

Test(gen_engine, computes_short_rests_itself)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    struct gen_rig_options options = ROOMY;
    options.local_prefill_max_tokens = 35;
    gen_rig_open(&rig, options);
    gen_rig_ask(&rig, &client, "a", 35, 3);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(rig.n_starts, 0);
    gen_rig_close(&rig);
}

Test(gen_engine, falls_back_whatever_the_context_worker_says)
{
    static const enum status ENDS[] = {
        STATUS_PEER_LOST,  STATUS_STALE_PEER,        STATUS_NO_BLOCKS,
        STATUS_QUEUE_FULL, STATUS_SHARE_FULL,        STATUS_DRAINING,
        STATUS_LOADING,    STATUS_GEOMETRY_MISMATCH, STATUS_DUPLICATE_REQUEST,
        STATUS_CANCELLED,  STATUS_TIMED_OUT,         STATUS_OK,
        STATUS_BUG};
    uint32_t expected[3];
    local_tokens("a", 35, 3, expected);
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        for (int is_described = 0; is_described < 2; is_described++) {
            struct gen_rig rig;
            struct rig_client client = {0};
            gen_rig_open(&rig, ROOMY);
            gen_rig_ask(&rig, &client, "a", 35, 3);
            if (is_described) {
                gen_rig_describe(&rig);
                gen_rig_ready(&rig, 0, 2, 0);
            }
            gen_rig_end(&rig, ENDS[i]);
            expect_ended(&client, STATUS_OK);
            cr_assert_arr_eq(client.tokens, expected, sizeof expected);
            cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 35);
            cr_assert_str_empty(client.finish.context_worker);
            expect_all_free_or_cached(&rig);
            gen_rig_close(&rig);
        }
    }
}

Test(gen_engine, ends_with_a_typed_status_when_it_may_not_compute)
{
    static const enum status PAIRS[][2] = {{STATUS_PEER_LOST, STATUS_TRANSFER_FAILED},
                                           {STATUS_STALE_PEER, STATUS_TRANSFER_FAILED},
                                           {STATUS_NO_BLOCKS, STATUS_NO_BLOCKS},
                                           {STATUS_QUEUE_FULL, STATUS_QUEUE_FULL},
                                           {STATUS_SHARE_FULL, STATUS_QUEUE_FULL},
                                           {STATUS_DRAINING, STATUS_DRAINING},
                                           {STATUS_LOADING, STATUS_LOADING},
                                           {STATUS_CANCELLED, STATUS_TRANSFER_FAILED},
                                           {STATUS_OK, STATUS_TRANSFER_FAILED},
                                           {STATUS_DUPLICATE_REQUEST, STATUS_TRANSFER_FAILED}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        gen_rig_open(&rig, STRICT);
        gen_rig_ask(&rig, &client, "a", 35, 3);
        gen_rig_describe(&rig);
        gen_rig_end(&rig, PAIRS[i][0]);
        expect_ended(&client, PAIRS[i][1]);
        expect_all_free_or_cached(&rig);
        gen_rig_close(&rig);
    }
}

Test(gen_engine, a_refused_commit_discards_the_blocks)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    uint32_t expected[3];
    local_tokens("a", 35, 3, expected);
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 35, 3);
    gen_rig_hand_over(&rig, expected[0]);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_NOT_HELD, "");
    gen_rig_step(&rig);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_QUARANTINED), 5, "until the receiver is quiet");
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_arr_eq(client.tokens, expected, sizeof expected);
    cr_assert_eq(client.n_tokens, 3, "the first token is not sent twice");
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 35);
    cr_assert_eq(client.finish.timing.kv_tokens_received, 0);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(gen_engine, another_first_token_than_its_own_is_a_failed_hand_over)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    uint32_t expected[1];
    local_tokens("a", 35, 1, expected);
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 35, 3);
    gen_rig_describe(&rig);
    gen_rig_first_token(&rig, expected[0] == 5 ? 6 : 5);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    expect_ended(&client, STATUS_TRANSFER_FAILED);
    cr_assert_eq(client.n_tokens, 1);
    gen_rig_close(&rig);
}

Test(gen_engine, the_first_token_of_a_worker_with_other_numerics_counts)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    uint32_t expected[1];
    local_tokens("a", 35, 1, expected);
    const uint32_t other = expected[0] == 5 ? 6 : 5;
    gen_rig_open(&rig, ROOMY);
    rig.has_other_numerics = true;
    gen_rig_ask(&rig, &client, "a", 35, 3);
    gen_rig_describe(&rig);
    gen_rig_first_token(&rig, other);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_tokens, 3);
    cr_assert_eq(client.tokens[0], other, "it was sent already");
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 35);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), 4, "all KV is this worker's own");
    gen_rig_close(&rig);
}

Test(gen_engine, kv_of_other_numerics_serves_one_request_and_is_never_cached)
{
    struct gen_rig rig;
    struct rig_client own = {0}, other = {0}, again = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &own, "a", 35, 4);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    const uint32_t n_cached = gen_rig_blocks(&rig, BLOCK_CACHED);
    cr_assert_eq(n_cached, 4);

    rig.has_other_numerics = true;
    gen_rig_ask(&rig, &other, "a", 64, 20);
    cr_assert_eq(rig.held_tokens, 32, "what is its own may lie below");
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&other, STATUS_OK);
    cr_assert_eq(other.n_tokens, 20);
    cr_assert_eq(other.finish.timing.kv_tokens_received, 32);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), n_cached, "nothing received, nothing on it");

    rig.has_other_numerics = false;
    gen_rig_ask(&rig, &again, "a", 64, 4);
    cr_assert_eq(rig.held_tokens, 32);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&again, STATUS_OK);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), 8, "of equal numerics all is");
    gen_rig_close(&rig);
}

Test(gen_engine, a_wrong_digest_discards_the_blocks)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 35, 3);
    gen_rig_describe(&rig);
    gen_rig_ready(&rig, 0, 5, 1);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 35);
    cr_assert_eq(rig.n_commits, 0);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(gen_engine, waits_no_longer_than_each_limit)
{
    /* Silence after the start, blocks that do not come, a commit that is not answered. */
    static const uint64_t LIMITS_NS[] = {50 * NS_PER_MS, 21 * NS_PER_MS, 10 * NS_PER_MS};
    for (int i = 0; i < 3; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        uint32_t expected[3];
        local_tokens("a", 35, 3, expected);
        gen_rig_open(&rig, ROOMY);
        gen_rig_ask(&rig, &client, "a", 35, 3);
        if (i == 1) {
            gen_rig_describe(&rig);
            sim_transport_stall(rig.owner_transport, UINT64_MAX);
            gen_rig_ready(&rig, 0, 2, 0);
        }
        if (i == 2)
            gen_rig_hand_over(&rig, expected[0]);
        rig.now_ns += LIMITS_NS[i] - 1;
        gen_rig_settle(&rig);
        cr_assert_eq(client.n_finishes, 0, "limit %d came early", i);
        rig.now_ns += 1;
        gen_rig_settle(&rig);
        expect_ended(&client, STATUS_OK);
        cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 35);
        rig.now_ns += NS_PER_S; /* the endpoint is closed by force */
        gen_rig_settle(&rig);
        rig.now_ns += NS_PER_S;
        gen_rig_settle(&rig);
        expect_all_free_or_cached(&rig);
        gen_rig_close(&rig);
    }
}

static void say_nonsense(struct gen_rig *rig, int which)
{
    static const uint32_t ids[40] = {0};
    struct prefill_event event = {.kind = EVENT_READY};
    event.ready.block_ids = ids;
    switch (which) {
    case 0:
        event.ready.first_block = 1;
        event.ready.n_blocks = 1;
        break;
    case 1:
        event.ready.n_blocks = 6;
        break;
    case 2:
        event.ready.n_blocks = 0;
        break;
    case 3:
        event = (struct prefill_event){.kind = EVENT_SEALED, .sealed = {.n_tokens = 35}};
        break;
    case 4:
        event = (struct prefill_event){.kind = EVENT_FIRST_TOKEN, .first_token = {.token_id = 96}};
        break;
    case 5:
        event = (struct prefill_event){.kind = EVENT_ACCEPTED, .accepted = {5, 16}};
        break;
    case 6:
        event = (struct prefill_event){.kind = EVENT_ACCEPTED, .accepted = {4, 8}};
        break;
    default:
        event = (struct prefill_event){.kind = EVENT_ACCEPTED, .accepted = {5, 8}};
        gen_rig_say(rig, &event); /* right, but twice */
        break;
    }
    gen_rig_say(rig, &event);
}

Test(gen_engine, believes_no_event_unchecked)
{
    for (int i = 0; i < 8; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        gen_rig_open(&rig, STRICT);
        gen_rig_ask(&rig, &client, "a", 35, 3);
        gen_rig_describe(&rig);
        say_nonsense(&rig, i);
        expect_ended(&client, STATUS_TRANSFER_FAILED);
        cr_assert_neq(client.finish.sentence, NULL);
        expect_all_free_or_cached(&rig);
        gen_rig_close(&rig);
    }
}

Test(gen_engine, a_client_may_leave_at_any_time)
{
    for (int i = 0; i < 4; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        gen_rig_open(&rig, ROOMY);
        gen_rig_ask(&rig, &client, "a", 35, 60);
        if (i >= 1)
            gen_rig_describe(&rig);
        if (i == 2)
            gen_rig_ready(&rig, 0, 3, 0);
        if (i == 3) {
            gen_rig_accept(&rig);
            gen_rig_ready(&rig, 0, 5, 0);
            gen_rig_first_token(&rig, 9);
            gen_rig_seal(&rig);
            gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
            gen_rig_step(&rig);
        }
        gen_engine_stream_ended(rig.engine, &client);
        gen_rig_settle(&rig);
        expect_ended(&client, STATUS_CANCELLED);
        cr_assert_eq(rig.n_cancels, 1, "and so the lease ends");
        expect_all_free_or_cached(&rig);
        gen_engine_stream_ended(rig.engine, &client); /* late: ignored */
        gen_rig_first_token(&rig, 9);                 /* the same */
        cr_assert_eq(client.n_finishes, 1);
        gen_rig_close(&rig);
    }
}

Test(gen_engine, ends_at_the_deadline_queued_or_not)
{
    struct gen_rig rig;
    struct rig_client running = {0}, queued = {0}, dead = {0};
    const struct sampling_params sampling = gen_rig_sampling(4);
    struct gen_rig_options options = ROOMY;
    options.sequences_max = 1;
    gen_rig_open(&rig, options);
    struct gen_request request = gen_rig_request("a", 1, 35, &sampling);
    request.input.deadline_ns = rig.now_ns + 20;
    cr_assert_eq(gen_engine_generate(rig.engine, &running, &request, NULL), STATUS_OK);
    request = gen_rig_request("b", 2, 35, &sampling);
    request.input.deadline_ns = rig.now_ns + 10;
    cr_assert_eq(gen_engine_generate(rig.engine, &queued, &request, NULL), STATUS_OK);
    request = gen_rig_request("c", 3, 35, &sampling);
    request.input.deadline_ns = rig.now_ns;
    cr_assert_eq(gen_engine_generate(rig.engine, &dead, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&dead, STATUS_TIMED_OUT);
    rig.now_ns += 10;
    gen_rig_settle(&rig);
    expect_ended(&queued, STATUS_TIMED_OUT);
    rig.now_ns += 10;
    gen_rig_settle(&rig);
    expect_ended(&running, STATUS_TIMED_OUT);
    gen_rig_close(&rig);
}

Test(gen_engine, a_full_pool_makes_requests_wait_and_then_refuses_them)
{
    struct gen_rig rig;
    struct rig_client first = {0}, second = {0}, huge = {0}, third = {0};
    struct gen_rig_options options = ROOMY;
    options.n_blocks = 8;
    gen_rig_open(&rig, options);
    gen_rig_ask(&rig, &first, "a", 40, 8);
    gen_rig_ask(&rig, &second, "b", 40, 8);
    gen_rig_ask(&rig, &huge, "c", 60, 6); /* the last token's KV is never needed */
    gen_rig_settle(&rig);
    expect_ended(&huge, STATUS_NO_BLOCKS);
    cr_assert_eq(rig.n_starts, 1, "prompts and all that may follow are counted together");
    rig.now_ns += 49 * NS_PER_MS;
    gen_rig_describe(&rig);
    rig.now_ns += 49 * NS_PER_MS;
    gen_rig_accept(&rig);
    rig.now_ns += 2 * NS_PER_MS;
    gen_rig_settle(&rig);
    expect_ended(&second, STATUS_NO_BLOCKS);
    gen_rig_ask(&rig, &third, "d", 40, 8);
    gen_engine_stream_ended(rig.engine, &first);
    gen_rig_settle(&rig);
    cr_assert_eq(rig.n_starts, 2, "freed blocks serve the next");
    gen_rig_close(&rig);
}

Test(gen_engine, computes_here_when_no_prefill_is_left)
{
    struct gen_rig rig;
    struct rig_client first = {0}, second = {0};
    struct gen_rig_options options = ROOMY;
    options.prefills_max = 1;
    gen_rig_open(&rig, options);
    gen_rig_ask(&rig, &first, "a", 35, 3);
    gen_rig_ask(&rig, &second, "b", 35, 3);
    gen_rig_settle(&rig);
    expect_ended(&second, STATUS_OK);
    cr_assert_eq(first.n_finishes, 0);
    cr_assert_eq(rig.n_starts, 1);
    gen_rig_close(&rig);
}

Test(gen_engine, waits_for_quiet_when_there_are_no_other_blocks)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    struct gen_rig_options options = ROOMY;
    options.n_blocks = 6;
    gen_rig_open(&rig, options);
    gen_rig_ask(&rig, &client, "a", 40, 8);
    gen_rig_describe(&rig);
    sim_transport_stall(rig.owner_transport, UINT64_MAX);
    gen_rig_ready(&rig, 0, 3, 0);
    gen_engine_prefill_end(rig.engine, rig.prefill, STATUS_PEER_LOST, "");
    gen_rig_step(&rig);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_QUARANTINED), 5);
    gen_rig_step(&rig);
    cr_assert_eq(client.n_tokens, 0, "nothing is computed into blocks that may be written");
    gen_rig_settle(&rig);
    rig.now_ns += NS_PER_S;
    gen_rig_settle(&rig);
    rig.now_ns += NS_PER_S;
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 40);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(gen_engine, stops_at_stop_ids_and_eos_and_lengths)
{
    uint32_t expected[6];
    local_tokens("a", 35, 6, expected);
    for (int i = 0; i < 3; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        struct sampling_params sampling = gen_rig_sampling(i == 0 ? 1 : 6);
        if (i == 1) {
            sampling.n_stop_token_ids = 1;
            sampling.stop_token_ids[0] = expected[2];
        }
        if (i == 2)
            client.slow_after = 2;
        gen_rig_open(&rig, ROOMY);
        struct gen_request request = gen_rig_request("a", 'a', 35, &sampling);
        request.context_worker = NULL;
        cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
        gen_rig_settle(&rig);
        expect_ended(&client, i == 2 ? STATUS_SLOW_READER : STATUS_OK);
        if (i < 2)
            cr_assert_eq(client.finish.reason, i == 0 ? GEN_FINISH_LENGTH : GEN_FINISH_STOP);
        cr_assert_leq(client.n_tokens, 3);
        expect_all_free_or_cached(&rig);
        gen_rig_close(&rig);
    }
}

Test(gen_engine, drains_stops_and_refuses_duplicates)
{
    struct gen_rig rig;
    struct rig_client old = {0}, same = {0}, new = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &old, "a", 35, 60);
    gen_rig_ask(&rig, &same, "a", 35, 60);
    gen_rig_settle(&rig);
    expect_ended(&same, STATUS_DUPLICATE_REQUEST);
    gen_engine_drain(rig.engine);
    gen_rig_step(&rig);
    gen_rig_ask(&rig, &new, "b", 35, 3);
    expect_ended(&new, STATUS_DRAINING);
    cr_assert_eq(old.n_finishes, 0);
    gen_engine_stop(rig.engine);
    gen_rig_settle(&rig);
    expect_ended(&old, STATUS_DRAINING);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(gen_engine, refuses_bad_requests_in_words)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    struct error error;
    static const uint32_t OUTSIDE[] = {3, 96};
    static const uint32_t LENGTHS[] = {0, 125, 129, 35, 35};
    gen_rig_open(&rig, ROOMY);
    for (uint32_t i = 0; i < 5; i++) {
        const struct sampling_params sampling = gen_rig_sampling(4);
        struct gen_request request = gen_rig_request("a", 1, LENGTHS[i], &sampling);
        if (i == 3)
            request.input.request_id = "";
        if (i == 4) {
            request.input.token_ids = OUTSIDE;
            request.input.n_tokens = 2;
        }
        bool is_long = i == 1 || i == 2;
        error.text[0] = '\0';
        cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, &error),
                     is_long ? STATUS_PROMPT_TOO_LONG : STATUS_INVALID_ARGUMENT, "case %u", i);
        cr_assert_neq(error.text[0], '\0', "case %u says nothing", i);
    }
    gen_rig_close(&rig);
}
