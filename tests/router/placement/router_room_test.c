/* router_core: what is placed fits the room that workers tell of, what does not waits, and tenants have their turns. */
#include "tests/router/support/router_rig.h"

#include <criterion/criterion.h>

static const uint32_t PROMPT[64] = {1, 2, 3};
static const uint32_t OTHER[64] = {9, 9, 9};

/* ---- room ---- */

static void report_room(struct router_rig *rig, uint32_t worker, uint32_t room)
{
    struct worker_report report = READY;
    report.tells_room = true;
    report.room = room;
    router_core_report(rig->core, worker, &report);
}

static bool is_placed(const struct stream *stream)
{
    return stream->n_starts > 0 && stream->n_finishes == 0;
}

Test(router_core, attempts_go_to_other_workers_on_both_sides)
{
    struct router_rig rig = router_rig_open(3, 3, true);
    struct stream stream = {0};
    uint32_t gens = 0, contexts = 0;
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        gens |= 1u << (stream.generation_worker[1] - '0');
        contexts |= 1u << (stream.context_worker[1] - '0');
        router_rig_end(&rig, &stream, STATUS_TRANSFER_FAILED);
    }
    cr_assert_eq(gens, 7);
    cr_assert_eq(contexts, 7);
    router_core_destroy(rig.core);
}

Test(router_core, who_is_full_is_not_asked_again_until_a_later_report_tells_of_room)
{
    struct router_rig rig = router_rig_open_waiting(2, 1, true, 4);
    struct stream streams[4] = {{0}};
    cr_assert_eq(router_rig_ask(&rig, &streams[0], PROMPT, 20), STATUS_OK);
    char full = streams[0].generation_worker[1];
    uint32_t worker = rig.gen[full - '0'];
    router_core_ask(rig.core, worker);
    router_rig_end(&rig, &streams[0], STATUS_QUEUE_FULL);
    cr_assert_eq(streams[0].n_starts, 2);
    cr_assert_neq(streams[0].generation_worker[1], full);
    router_core_report(rig.core, worker, &READY);
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(router_rig_ask(&rig, &streams[i], OTHER, 20), STATUS_OK);
        cr_assert_neq(streams[i].generation_worker[1], full, "it was asked before it refused");
    }
    router_core_ask(rig.core, worker);
    report_room(&rig, worker, 0);
    cr_assert_eq(router_rig_ask(&rig, &streams[3], OTHER, 20), STATUS_OK);
    cr_assert_neq(streams[3].generation_worker[1], full);
    router_rig_end(&rig, &streams[3], STATUS_QUEUE_FULL);
    cr_assert_eq(router_rig_n_waiting(&rig), 1, "both are full");
    router_core_ask(rig.core, worker);
    report_room(&rig, worker, 1);
    cr_assert(is_placed(&streams[3]));
    cr_assert_eq(streams[3].generation_worker[1], full);
    router_core_destroy(rig.core);
}

Test(router_core, refusals_for_want_of_room_are_no_attempts)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (uint32_t i = 2; i < 8; i++) {
        router_rig_end(&rig, &stream, STATUS_QUEUE_FULL);
        cr_assert_eq(router_rig_n_waiting(&rig), 1);
        router_core_report(rig.core, rig.gen[0], &READY);
        cr_assert_eq(stream.n_starts, i);
    }
    router_rig_end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, what_failed_waits_for_room_elsewhere_before_it_goes_back)
{
    struct router_rig rig = router_rig_open_waiting(2, 0, true, 4);
    struct stream first = {0}, second = {0}, third = {0};
    report_room(&rig, rig.gen[0], 1);
    report_room(&rig, rig.gen[1], 0);
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &first, STATUS_TRANSFER_FAILED);
    cr_assert_eq(first.n_starts, 1, "g0 has room, and failed it");
    report_room(&rig, rig.gen[1], 1);
    cr_assert_eq(first.n_starts, 2);
    cr_assert_str_eq(first.generation_worker, "g1");

    cr_assert_eq(router_rig_ask(&rig, &second, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &second, STATUS_TRANSFER_FAILED);
    cr_assert_eq(router_rig_ask(&rig, &third, PROMPT, 20), STATUS_OK);
    cr_assert_str_eq(third.generation_worker, "g0", "who has not been there may go there");
    router_core_step(rig.core, WAIT_LIMIT_NS / 2);
    cr_assert_eq(second.n_starts, 1);
    report_room(&rig, rig.gen[0], 1);
    cr_assert_eq(second.n_starts, 2, "g1 stays full");
    router_core_destroy(rig.core);
}

Test(router_core, a_worker_that_promises_room_and_refuses_for_ever_keeps_nobody)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (uint32_t i = 0; i < 100 && stream.n_finishes == 0; i++) {
        router_rig_end(&rig, &stream, STATUS_QUEUE_FULL);
        router_core_step(rig.core, WAIT_LIMIT_NS - 1 + i);
        report_room(&rig, rig.gen[0], 1);
    }
    cr_assert_eq(stream.status, STATUS_QUEUE_FULL);
    cr_assert_eq(stream.n_finishes, 1);
    router_core_destroy(rig.core);
}

Test(router_core, as_many_are_placed_as_there_is_room_and_each_end_makes_some)
{
    struct router_rig rig = router_rig_open_waiting(2, 1, true, 4);
    struct stream streams[4] = {{0}};
    report_room(&rig, rig.gen[0], 1);
    report_room(&rig, rig.gen[1], 1);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(router_rig_ask(&rig, &streams[i], PROMPT, 20), STATUS_OK);
    cr_assert_eq(router_rig_n_waiting(&rig), 2);
    router_rig_end(&rig, &streams[0], STATUS_OK);
    cr_assert(is_placed(&streams[2]));
    cr_assert(router_core_cancel(rig.core, &streams[1]));
    cr_assert(is_placed(&streams[3]));
    router_core_destroy(rig.core);
}

Test(router_core, whoever_finds_all_full_is_told_so_after_the_wait)
{
    struct router_rig rig = router_rig_open_waiting(2, 1, false, 4);
    struct stream first = {0}, second = {0};
    report_room(&rig, rig.gen[0], 0);
    report_room(&rig, rig.gen[1], 0);
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, WAIT_LIMIT_NS);
    cr_assert_eq(first.status, STATUS_QUEUE_FULL);
    cr_assert_str_eq(first.sentence, "2 generation workers are ready and full: waited 5 ms");
    report_room(&rig, rig.gen[0], 1);
    report_room(&rig, rig.ctx[0], 0);
    cr_assert_eq(router_rig_ask(&rig, &second, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, 2 * WAIT_LIMIT_NS);
    cr_assert_str_eq(second.sentence, "1 context worker is ready and full: waited 5 ms");
    router_core_destroy(rig.core);

    rig = router_rig_open(1, 1, true);
    report_room(&rig, rig.gen[0], 0);
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 20), STATUS_QUEUE_FULL, "nothing waits here");
    router_core_destroy(rig.core);
}

Test(router_core, a_prompt_goes_to_another_context_worker_while_one_has_room)
{
    struct router_rig rig = router_rig_open_waiting(1, 2, true, 4);
    struct stream stream = {0}, next = {0}, last = {0};
    uint32_t one = 1;
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    char full = stream.context_worker[1];
    router_rig_end(&rig, &stream, STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_neq(stream.context_worker[1], full);
    cr_assert_neq(stream.context_worker[0], '\0');
    cr_assert_not(router_core_contexts_are_full(rig.core, stream.attempt));
    report_room(&rig, rig.ctx[1 - (full - '0')], 1);
    cr_assert_eq(router_rig_ask(&rig, &next, OTHER, 20), STATUS_OK);
    cr_assert_eq(next.context_worker[1], stream.context_worker[1]);
    cr_assert(router_core_contexts_are_full(rig.core, next.attempt));
    cr_assert_eq(router_rig_ask(&rig, &last, PROMPT, 20), STATUS_OK);
    cr_assert_str_empty(last.context_worker, "all are full, and it is short");
    router_core_tokens(rig.core, next.attempt, 1, &one);
    cr_assert_not(router_core_contexts_are_full(rig.core, last.attempt),
                  "its prompt is there no more");
    router_core_destroy(rig.core);
}

/* Another generation worker may have a place there now, and this one when that was asked again. */
Test(router_core, who_has_his_share_of_a_context_worker_leaves_it_to_others)
{
    struct router_rig rig = router_rig_open_waiting(2, 1, false, 4);
    struct stream first = {0}, second = {0}, third = {0};
    cr_assert_eq(router_rig_ask(&rig, &first, PROMPT, 20), STATUS_OK);
    char refused = first.generation_worker[1];
    router_core_ask(rig.core, rig.ctx[0]);
    router_rig_end(&rig, &first, STATUS_SHARE_FULL);
    cr_assert_eq(first.n_refused, 1);
    cr_assert(is_placed(&first));
    cr_assert_eq(first.n_starts, 2);
    cr_assert_neq(first.generation_worker[1], refused);
    router_core_report(rig.core, rig.ctx[0], &READY);
    cr_assert_eq(router_rig_ask(&rig, &second, OTHER, 20), STATUS_OK);
    cr_assert_neq(second.generation_worker[1], refused, "it was asked before it refused");
    router_core_ask(rig.core, rig.ctx[0]);
    router_core_report(rig.core, rig.ctx[0], &READY);
    cr_assert_eq(router_rig_ask(&rig, &third, OTHER, 20), STATUS_OK);
    cr_assert_eq(third.generation_worker[1], refused);
    router_core_destroy(rig.core);
}

Test(router_core, who_alone_has_his_share_waits_for_a_later_report)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, false, 4);
    struct stream stream = {0};
    cr_assert_eq(router_rig_ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_SHARE_FULL);
    cr_assert_eq(router_rig_n_waiting(&rig), 1);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(router_rig_n_waiting(&rig), 1, "of the context worker");
    router_core_ask(rig.core, rig.ctx[0]);
    router_core_report(rig.core, rig.ctx[0], &READY);
    cr_assert(is_placed(&stream));
    router_core_remove_worker(rig.core, rig.ctx[0]);
    router_rig_end(&rig, &stream, STATUS_SHARE_FULL);
    cr_assert_eq(router_rig_n_waiting(&rig), 1);
    router_rig_join(&rig, WORKER_CONTEXT, "c9");
    cr_assert_str_eq(stream.context_worker, "c9", "whose share is another");
    router_core_destroy(rig.core);
}

/* ---- full context workers, and prompts that may be computed where they are decoded ---- */

static const uint32_t LONG_PROMPT[PROMPT_TOKENS_MAX] = {7, 7, 7};

Test(router_core, a_long_prompt_waits_for_a_context_worker_with_room)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream first = {0}, second = {0}, small = {0};
    router_core_step(rig.core, 5000);
    report_room(&rig, rig.ctx[0], 0);
    cr_assert_eq(router_rig_ask(&rig, &first, LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &second, LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK);
    cr_assert_eq(router_rig_n_waiting(&rig), 2);
    cr_assert_eq(router_rig_ask(&rig, &small, PROMPT, 20), STATUS_OK);
    cr_assert(is_placed(&small), "a short one costs a generation worker little");
    cr_assert_str_empty(small.context_worker);
    report_room(&rig, rig.ctx[0], 1);
    cr_assert_str_eq(first.context_worker, "c0");
    cr_assert_eq(router_rig_n_waiting(&rig), 1);
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS / 10 - 1);
    cr_assert_eq(second.n_starts, 0);
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS / 10);
    cr_assert(is_placed(&second), "for a part of the whole wait");
    cr_assert_str_empty(second.context_worker);
    cr_assert(router_core_contexts_are_full(rig.core, second.attempt));
    router_core_destroy(rig.core);
}

Test(router_core, whoever_context_workers_refuse_waits_for_them_once)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream stream = {0};
    router_core_step(rig.core, 5000);
    cr_assert_eq(router_rig_ask(&rig, &stream, LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK);
    for (uint32_t i = 1; i < 10; i++) {
        router_rig_end(&rig, &stream, STATUS_NO_CONTEXT_WORKER);
        cr_assert_eq(router_rig_n_waiting(&rig), 1);
        router_core_step(rig.core, 5000 + i * WAIT_LIMIT_NS / 100);
        report_room(&rig, rig.ctx[0], 1);
        cr_assert_str_eq(stream.context_worker, "c0");
    }
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS / 10);
    router_rig_end(&rig, &stream, STATUS_NO_CONTEXT_WORKER);
    cr_assert(is_placed(&stream));
    cr_assert_str_empty(stream.context_worker);
    cr_assert_eq(stream.n_refused, 10);
    router_core_destroy(rig.core);
}

Test(router_core, nobody_is_refused_for_who_waits_for_a_context_worker)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 2);
    struct stream streams[4] = {{0}};
    report_room(&rig, rig.ctx[0], 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(router_rig_ask(&rig, &streams[i], LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK);
    cr_assert(is_placed(&streams[0]) && is_placed(&streams[1]));
    cr_assert_eq(router_rig_n_waiting(&rig), 2);
    router_core_destroy(rig.core);

    rig = router_rig_open(1, 1, true);
    report_room(&rig, rig.ctx[0], 0);
    cr_assert_eq(router_rig_ask(&rig, &streams[0], LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK,
                 "nothing waits here");
    cr_assert_str_empty(streams[0].context_worker);
    router_core_destroy(rig.core);
}

Test(router_core, a_generation_worker_without_a_context_worker_that_fits_waits_for_none)
{
    struct router_rig rig = router_rig_open_waiting(2, 1, true, 4);
    struct stream stream = {0};
    router_core_set_fit(rig.core, rig.gen[1], rig.ctx[0], false);
    report_room(&rig, rig.ctx[0], 0);
    cr_assert_eq(router_rig_ask(&rig, &stream, LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK);
    cr_assert(is_placed(&stream));
    cr_assert_str_eq(stream.generation_worker, "g1");
    router_core_destroy(rig.core);
}

Test(router_core, nobody_waits_for_a_context_worker_that_has_left)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream stream = {0};
    router_core_step(rig.core, 5000);
    report_room(&rig, rig.ctx[0], 0);
    cr_assert_eq(router_rig_ask(&rig, &stream, LONG_PROMPT, PROMPT_TOKENS_MAX), STATUS_OK);
    cr_assert_eq(router_rig_n_waiting(&rig), 1);
    router_core_remove_worker(rig.core, rig.ctx[0]);
    router_core_step(rig.core, 5001);
    cr_assert(is_placed(&stream));
    cr_assert_str_empty(stream.context_worker);
    router_core_destroy(rig.core);
}

/* ---- tenants ---- */

Test(router_core, tenants_have_their_turns_by_weight)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 8);
    struct stream heavy[4], light[3];
    report_room(&rig, rig.gen[0], 0);
    for (int i = 0; i < 4; i++) {
        heavy[i] = (struct stream){.standing = {.tenant = 1, .weight = 3}};
        cr_assert_eq(router_rig_ask(&rig, &heavy[i], PROMPT, 20), STATUS_OK);
    }
    for (int i = 0; i < 3; i++) {
        light[i] = (struct stream){.standing = {.tenant = 2, .weight = 1}};
        cr_assert_eq(router_rig_ask(&rig, &light[i], PROMPT, 20), STATUS_OK);
    }
    for (uint32_t i = 1; i < 5; i++)
        report_room(&rig, rig.gen[0], 1);
    cr_assert(is_placed(&heavy[0]) && is_placed(&heavy[1]) && is_placed(&heavy[2]));
    cr_assert(is_placed(&light[0]) && !is_placed(&light[1]));
    report_room(&rig, rig.gen[0], 1);
    cr_assert(is_placed(&heavy[3]));
    router_core_destroy(rig.core);
}

Test(router_core, one_small_call_of_another_tenant_does_not_wait_behind_a_crowd)
{
    struct router_rig rig = router_rig_open_waiting(1, 1, true, 4);
    struct stream crowd[5], small = {.standing = {.tenant = 2}};
    report_room(&rig, rig.gen[0], 0);
    for (int i = 0; i < 5; i++) {
        crowd[i] = (struct stream){.standing = {.tenant = 1}};
        cr_assert_eq(router_rig_ask(&rig, &crowd[i], PROMPT, 20),
                     i < 4 ? STATUS_OK : STATUS_QUEUE_FULL);
    }
    cr_assert_eq(router_rig_ask(&rig, &small, PROMPT, 20), STATUS_OK);
    cr_assert_eq(crowd[3].status, STATUS_QUEUE_FULL, "the last of those that have most gives way");
    cr_assert_eq(crowd[3].n_finishes, 1);
    report_room(&rig, rig.gen[0], 2);
    cr_assert(is_placed(&crowd[0]) && is_placed(&small));
    cr_assert_eq(router_rig_n_waiting(&rig), 2);
    router_core_destroy(rig.core);
}
