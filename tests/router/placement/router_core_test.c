/* router_core: a request is placed on the best pair, again only before its first token, and ends once. */
#include "tests/router/support/router_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint32_t PROMPT[64] = {1, 2, 3};
static const uint32_t OTHER[64] = {9, 9, 9};

Test(router_core, says_which_role_is_missing)
{
    struct router_rig rig = router_rig_open(0, 1, true);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_NO_GENERATION_WORKER);
    router_core_destroy(rig.core);

    rig = router_rig_open(1, 0, false);
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_NO_CONTEXT_WORKER);
    router_core_destroy(rig.core);

    rig = router_rig_open(1, 0, true);
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    cr_assert_str_empty(stream.context_worker, "it computes the prompt itself");
    router_core_destroy(rig.core);
    cr_assert_eq(stream.n_finishes, 0);
}

Test(router_core, relays_and_finishes_once)
{
    struct router_rig rig = router_rig_open(1, 1, true);
    struct stream stream = {0};
    uint32_t one = 1;
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    router_rig_end(&rig, &stream, STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_OK);
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    cr_assert_eq(stream.n_tokens, 2);
    cr_assert_eq(stream.n_finishes, 1);
    router_core_destroy(rig.core);
}

Test(router_core, tries_other_pairs_until_the_first_token)
{
    struct router_rig rig = router_rig_open(2, 1, true);
    struct stream stream = {0};
    uint32_t one = 1;
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    char first = stream.generation_worker[1];
    router_rig_end(&rig, &stream, STATUS_NO_BLOCKS);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_neq(stream.generation_worker[1], first, "a pair is tried once");
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    router_rig_end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.n_starts, 2, "a token was sent");
    cr_assert_eq(stream.n_finishes, 1);
    cr_assert_eq(stream.status, STATUS_PEER_LOST);
    router_core_destroy(rig.core);
}

Test(router_core, tries_again_behind_messages_without_a_token)
{
    struct router_rig rig = router_rig_open(2, 1, true);
    struct stream stream = {0};
    uint32_t payload = 1;
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_core_tokens(rig.core, stream.attempt, 0, &payload);
    cr_assert_eq(stream.n_tokens, 1, "it is passed on");
    router_rig_end(&rig, &stream, STATUS_NO_BLOCKS);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_eq(stream.n_finishes, 0);
    router_core_destroy(rig.core);
}

Test(router_core, gives_up_after_attempts_max_with_the_last_status)
{
    struct router_rig rig = router_rig_open(3, 3, true);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (int i = 0; i < 3; i++)
        router_rig_end(&rig, &stream, i < 2 ? STATUS_NO_BLOCKS : STATUS_TRANSFER_FAILED);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_TRANSFER_FAILED);
    router_core_destroy(rig.core);
}

Test(router_core, a_worker_that_lost_its_device_gets_nothing_more_and_another_the_request)
{
    struct router_rig rig = router_rig_open(2, 1, true);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    char first = stream.generation_worker[1];
    router_rig_end(&rig, &stream, STATUS_DEVICE_LOST);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_neq(stream.generation_worker[1], first);
    cr_assert_eq(router_core_n_ready(rig.core, WORKER_GENERATION), 1);
    router_rig_end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, does_not_retry_what_cannot_help)
{
    static const enum status FATAL[] = {STATUS_INVALID_ARGUMENT, STATUS_PROMPT_TOO_LONG,
                                        STATUS_TIMED_OUT,        STATUS_CANCELLED,
                                        STATUS_SLOW_READER,      STATUS_BUG};
    struct router_rig rig = router_rig_open(3, 3, true);
    for (size_t i = 0; i < sizeof FATAL / sizeof *FATAL; i++) {
        struct stream stream = {0};
        cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
        router_rig_end(&rig, &stream, FATAL[i]);
        cr_assert_eq(stream.n_starts, 1);
        cr_assert_eq(stream.status, FATAL[i]);
    }
    router_core_destroy(rig.core);
}

Test(router_core, its_own_earlier_attempt_is_no_duplicate_of_the_clients)
{
    struct router_rig rig = router_rig_open(1, 3, true);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_TRANSFER_FAILED);
    router_rig_end(&rig, &stream, STATUS_DUPLICATE_REQUEST);
    router_rig_end(&rig, &stream, STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_PEER_LOST);
    router_core_destroy(rig.core);
}

Test(router_core, a_worker_whose_call_broke_waits_for_its_next_report)
{
    struct router_rig rig = router_rig_open(1, 1, true);
    struct stream stream = {0}, next = {0};
    const struct worker_report ready = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.status, STATUS_PEER_LOST);
    cr_assert_eq(router_core_n_ready(rig.core, WORKER_GENERATION), 0);
    cr_assert_eq(router_rig_ask(&rig, &next, PROMPT, 20), STATUS_NO_GENERATION_WORKER);
    router_core_report(rig.core, rig.gen[0], &ready);
    cr_assert_eq(router_rig_ask(&rig, &next, PROMPT, 20), STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, sends_a_known_prefix_where_it_was_and_spreads_the_rest)
{
    struct router_rig rig = router_rig_open(2, 2, true);
    struct stream first = {0}, again = {0}, other = {0};
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 64), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &other, OTHER, 64), STATUS_OK);
    cr_assert_str_neq(first.generation_worker, other.generation_worker);
    cr_assert_str_neq(first.context_worker, other.context_worker);
    router_rig_end(&rig, &first, STATUS_OK);
    router_rig_end(&rig, &other, STATUS_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(router_rig_ask(&rig, &again, OTHER, 40), STATUS_OK);
        cr_assert_str_eq(again.generation_worker, other.generation_worker);
        cr_assert_str_eq(again.context_worker, other.context_worker);
        router_rig_end(&rig, &again, STATUS_OK);
    }
    router_core_destroy(rig.core);
}

Test(router_core, remembers_the_prompt_of_a_request_that_was_cut_short)
{
    struct router_rig rig = router_rig_open(2, 2, true);
    struct stream cut = {0}, other = {0}, again = {0};
    uint32_t token = 1;
    cr_assert_eq(router_rig_ask(&rig, &other, OTHER, 64), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &cut, PROMPT, 64), STATUS_OK);
    cr_assert_str_neq(cut.generation_worker, other.generation_worker);
    router_core_tokens(rig.core, cut.attempt, 1, &token);
    cr_assert(router_core_cancel(rig.core, &cut));
    router_rig_end(&rig, &other, STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &again, PROMPT, 40), STATUS_OK);
    cr_assert_str_eq(again.generation_worker, cut.generation_worker);
    cr_assert_str_eq(again.context_worker, cut.context_worker);
    router_core_destroy(rig.core);
}

Test(router_core, prefers_a_worker_with_room)
{
    struct router_rig rig = router_rig_open(2, 1, true);
    struct stream first = {0}, second = {0};
    const struct worker_report busy = {
        .is_ready = true, .running = 50, .n_blocks = 64, .blocks_usable = 64};
    const struct worker_report full = {.is_ready = true, .n_blocks = 64, .blocks_usable = 8};
    router_core_report(rig.core, rig.gen[0], &busy);
    router_core_report(rig.core, rig.gen[1], &full);
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 64), STATUS_OK);
    cr_assert_str_eq(first.generation_worker, "g0", "9 blocks are wanted");
    cr_assert_eq(router_rig_ask(&rig, &second, PROMPT, 56), STATUS_OK);
    cr_assert_str_eq(second.generation_worker, "g1");
    router_core_destroy(rig.core);
}

Test(router_core, a_client_that_left_is_finished_at_once_and_its_call_cancelled)
{
    struct router_rig rig = {0};
    struct stream stream = {0};
    uint32_t one = 1, worker;
    const struct router_core_options options = {.workers_max = 1,
                                                .requests_max = 1,
                                                .attempts_max = 1,
                                                .prefixes_max = 1,
                                                .prompt_tokens_max = 128,
                                                .block_tokens = BLOCK_TOKENS,
                                                .local_prefill = true};
    struct router_core_ops ops = ROUTER_RIG_OPS;
    ops.arg = &rig;
    const struct worker_report ready = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
    cr_assert_eq(router_core_create(&options, &ops, &rig.core), STATUS_OK);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_GENERATION, "g0", &worker), STATUS_OK);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_GENERATION, "g0", &worker),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_CONTEXT, "c0", &worker),
                 STATUS_QUEUE_FULL);
    router_core_report(rig.core, 0, &ready);
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    struct stream refused = {0};
    cr_assert_eq(router_rig_ask(&rig, &refused, PROMPT, 20), STATUS_QUEUE_FULL);
    cr_assert(router_core_cancel(rig.core, &stream));
    cr_assert_eq(rig.n_cancels, 1);
    cr_assert_eq(stream.status, STATUS_CANCELLED);
    cr_assert_not(router_core_cancel(rig.core, &stream));
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    router_rig_end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.n_tokens, 0);
    cr_assert_eq(stream.n_finishes, 1);
    router_core_destroy(rig.core);
}

/* ---- waiting ---- */

static uint64_t waiting_tokens(const struct router_rig *rig)
{
    struct router_core_stats stats;
    router_core_read_stats(rig->core, &stats);
    return stats.waiting_tokens;
}

Test(router_core, what_cannot_be_placed_waits_for_a_report_and_goes_in_order)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream first = {0}, second = {0};
    router_core_step(rig.core, 5000);
    router_core_report(rig.core, rig.gen[0], &DOWN);
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 20), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &second, OTHER, 20), STATUS_OK);
    cr_assert_eq(first.n_starts + second.n_starts, 0);
    cr_assert_eq(router_rig_n_waiting(&rig), 2);
    cr_assert_eq(waiting_tokens(&rig), 40);
    router_core_report(rig.core, rig.gen[0], &DOWN);
    router_core_report(rig.core, rig.ctx[0], &READY);
    cr_assert_eq(router_rig_n_waiting(&rig), 2, "a generation worker is what lacks");
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS - 1);
    cr_assert_eq(first.n_finishes, 0);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(first.n_starts, 1);
    cr_assert_eq(second.n_starts, 1);
    cr_assert_lt(first.attempt, second.attempt);
    cr_assert_eq(router_rig_n_waiting(&rig), 0);
    cr_assert_eq(waiting_tokens(&rig), 0);
    router_core_step(rig.core, 5000 + 2 * WAIT_LIMIT_NS);
    router_rig_end(&rig, &first, STATUS_OK);
    router_rig_end(&rig, &second, STATUS_OK);
    cr_assert_eq(first.n_finishes + second.n_finishes, 2);
    router_core_destroy(rig.core);
}

Test(router_core, a_wait_ends_with_what_lacks_or_at_the_deadline)
{
    struct router_rig rig = router_rig_open_waiting(1, 0, false, 4);
    struct stream patient = {0}, hurried = {.deadline_ns = 5300};
    router_core_step(rig.core, 5000);
    cr_assert_eq(router_rig_ask(&rig, &patient, PROMPT, 20), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &hurried, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, 5299);
    cr_assert_eq(patient.n_finishes + hurried.n_finishes, 0);
    router_core_step(rig.core, 5300);
    cr_assert_eq(hurried.status, STATUS_TIMED_OUT);
    cr_assert_eq(patient.n_finishes, 0);
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS);
    cr_assert_eq(patient.status, STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(patient.n_finishes + hurried.n_finishes, 2);
    router_core_report(rig.core, rig.gen[0], &DOWN);
    cr_assert_eq(router_rig_ask(&rig, &patient, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, 5000 + 3 * WAIT_LIMIT_NS);
    cr_assert_eq(patient.status, STATUS_NO_GENERATION_WORKER);
    router_core_destroy(rig.core);
}

Test(router_core, a_full_queue_says_so_at_once_and_a_cancel_makes_room)
{
    struct router_rig rig = router_rig_open_waiting(0, 0, true, 2);
    struct stream streams[3] = {{0}};
    cr_assert_eq(router_rig_ask(&rig, &streams[0], PROMPT, 20), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &streams[1], PROMPT, 20), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &streams[2], PROMPT, 20), STATUS_QUEUE_FULL);
    cr_assert(router_core_cancel(rig.core, &streams[0]));
    cr_assert_eq(streams[0].status, STATUS_CANCELLED);
    cr_assert_eq(rig.n_cancels, 0, "there was no call");
    cr_assert_eq(router_rig_ask(&rig, &streams[2], PROMPT, 20), STATUS_OK);
    cr_assert_eq(router_rig_n_waiting(&rig), 2);
    router_core_drain(rig.core);
    cr_assert_eq(streams[1].status, STATUS_DRAINING);
    cr_assert_eq(streams[2].status, STATUS_DRAINING);
    cr_assert_eq(router_rig_ask(&rig, &streams[0], PROMPT, 20), STATUS_DRAINING,
                 "nothing waits any more");
    cr_assert_eq(streams[0].n_finishes, 1);
    router_core_destroy(rig.core);
}

Test(router_core, a_retry_waits_when_the_only_worker_is_gone)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.n_finishes, 0);
    cr_assert_eq(router_rig_n_waiting(&rig), 1);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_str_eq(stream.context_worker, "c0", "after a wait the pair may be tried again");
    router_rig_end(&rig, &stream, STATUS_PEER_LOST);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(stream.n_starts, 3);
    router_rig_end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.status, STATUS_PEER_LOST, "attempts_max");
    router_core_destroy(rig.core);
}

Test(router_core, the_only_worker_started_anew_is_asked_again_after_its_next_report)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_STALE_PEER);
    cr_assert_eq(stream.n_finishes, 0);
    cr_assert_eq(router_rig_n_waiting(&rig), 1, "not tried again in the life that is over");
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(stream.n_starts, 2);
    router_rig_end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, what_every_pair_has_refused_does_not_wait)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, false, 4);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_NO_BLOCKS);
    cr_assert_eq(stream.status, STATUS_NO_BLOCKS);
    router_core_destroy(rig.core);
}

/* ---- pairs ---- */

Test(router_core, only_pairs_that_fit_are_used)
{
    struct router_rig rig = router_rig_open(2, 2, false);
    for (int i = 0; i < 2; i++)
        router_core_set_fit(rig.core, rig.gen[i], rig.ctx[1 - i], false);
    cr_assert_eq(router_core_n_pairs(rig.core), 2);
    for (int i = 0; i < 4; i++) {
        struct stream stream = {0};
        cr_assert_eq(router_rig_ask(&rig, &stream, i % 2 ? PROMPT : OTHER, 64), STATUS_OK);
        cr_assert_eq(stream.generation_worker[1], stream.context_worker[1]);
        router_rig_end(&rig, &stream, STATUS_TRANSFER_FAILED);
        cr_assert_eq(stream.generation_worker[1], stream.context_worker[1], "a retry too");
        router_core_cancel(rig.core, &stream);
    }
    router_core_destroy(rig.core);
}

Test(router_core, without_a_pair_that_fits_there_is_no_context_worker)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, false, 1);
    struct stream stream = {0};
    router_core_set_fit(rig.core, rig.gen[0], rig.ctx[0], false);
    cr_assert_eq(router_core_lacks(rig.core), STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    cr_assert_eq(stream.n_starts, 0);
    router_core_set_fit(rig.core, rig.gen[0], rig.ctx[0], true);
    cr_assert_eq(stream.n_starts, 1, "what waits goes when a pair fits");
    router_core_destroy(rig.core);

    rig = router_rig_open(1, 1, true);
    router_core_set_fit(rig.core, rig.gen[0], rig.ctx[0], false);
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    cr_assert_str_empty(stream.context_worker);
    router_core_destroy(rig.core);
}
