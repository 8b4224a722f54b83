/* router_core: a request with an adapter goes to workers that have it; who lacks it is not asked, and others do not wait behind it. */
#include "tests/router/support/router_rig.h"

#include <criterion/criterion.h>
#include <string.h>

enum { A = 11, B = 12 };

static const uint32_t PROMPT[64] = {1, 2, 3};

static enum status ask(struct router_rig *rig, struct stream *stream, uint64_t adapter)
{
    const struct route_request request = {.token_ids = PROMPT,
                                          .n_tokens = 64,
                                          .max_tokens = 8,
                                          .salt = "",
                                          .adapter = adapter,
                                          .deadline_ns = DEADLINE_NONE,
                                          .beside = NOBODY};
    return router_core_generate(rig->core, stream, &request);
}

/* adapter 0: it has none. */
static void report(struct router_rig *rig, uint32_t worker, uint64_t adapter)
{
    struct worker_report report = READY;
    report.n_adapters = adapter != 0;
    report.adapters[0] = adapter;
    router_core_report(rig->core, worker, &report);
}

Test(router_adapter, both_workers_of_a_pair_have_it)
{
    struct router_rig rig = router_rig_open(3, 3, true);
    for (uint32_t i = 0; i < 3; i++) {
        report(&rig, rig.gen[i], i == 1 ? A : B);
        report(&rig, rig.ctx[i], i == 2 ? A : 0);
    }
    for (int i = 0; i < 4; i++) {
        struct stream stream = {0};
        cr_assert_eq(ask(&rig, &stream, A), STATUS_OK);
        cr_assert_str_eq(stream.generation_worker, "g1");
        cr_assert_str_eq(stream.context_worker, "c2");
        router_rig_end(&rig, &stream, STATUS_OK);
    }
    struct stream alone = {0}, none = {0};
    cr_assert_eq(ask(&rig, &alone, B), STATUS_OK);
    cr_assert_str_empty(alone.context_worker, "no context worker has it");
    cr_assert_eq(ask(&rig, &none, 0), STATUS_OK);
    cr_assert_str_not_empty(none.context_worker, "any will do");
    router_rig_end(&rig, &alone, STATUS_OK);
    router_rig_end(&rig, &none, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_adapter, a_worker_that_does_not_have_it_any_more_is_not_asked_again)
{
    struct router_rig rig = router_rig_open(2, 0, true);
    struct stream stream = {0};
    report(&rig, rig.gen[0], A);
    report(&rig, rig.gen[1], A);
    cr_assert_eq(ask(&rig, &stream, A), STATUS_OK);
    char first[8];
    memcpy(first, stream.generation_worker, sizeof first);
    router_rig_end(&rig, &stream, STATUS_ADAPTER_MISMATCH);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_str_neq(stream.generation_worker, first);
    router_rig_end(&rig, &stream, STATUS_ADAPTER_MISMATCH);
    cr_assert_eq(stream.status, STATUS_MODEL_NOT_FOUND, "%s", status_name(stream.status));
    router_core_destroy(rig.core);
}

Test(router_adapter, requests_behind_one_that_waits_for_it_go_on)
{
    struct router_rig rig = router_rig_open_waiting(1, 0, true, 8);
    struct stream waiting = {0}, other = {0};
    cr_assert_eq(ask(&rig, &waiting, A), STATUS_OK);
    cr_assert_eq(waiting.n_starts, 0);
    cr_assert_eq(ask(&rig, &other, 0), STATUS_OK);
    cr_assert_eq(other.n_starts, 1);
    report(&rig, rig.gen[0], A);
    cr_assert_eq(waiting.n_starts, 1);
    router_rig_end(&rig, &other, STATUS_OK);
    router_rig_end(&rig, &waiting, STATUS_OK);
    router_core_destroy(rig.core);
}

static void expect_waited_in_vain(struct router_rig *rig, enum status status, const char *sentence)
{
    struct stream stream = {0};
    cr_assert_eq(ask(rig, &stream, A), STATUS_OK);
    router_core_step(rig->core, WAIT_LIMIT_NS);
    cr_assert_eq(stream.n_starts, 0);
    cr_assert_eq(stream.status, status, "%s", status_name(stream.status));
    cr_assert_str_eq(stream.sentence, sentence);
    router_core_destroy(rig->core);
}

Test(router_adapter, who_waits_for_it_in_vain_is_told_so)
{
    struct router_rig rig = router_rig_open_waiting(2, 1, true, 8);
    report(&rig, rig.gen[1], B);
    expect_waited_in_vain(&rig, STATUS_MODEL_NOT_FOUND, "waited 5 ms for one that has it");
    rig = router_rig_open_waiting(1, 1, false, 8);
    report(&rig, rig.gen[0], A);
    expect_waited_in_vain(&rig, STATUS_NO_CONTEXT_WORKER,
                          "no ready context worker has the adapter: waited 5 ms");
    rig = router_rig_open_waiting(1, 0, true, 8);
    struct worker_report full = READY;
    full.tells_room = true;
    full.n_adapters = 1;
    full.adapters[0] = A;
    router_core_report(rig.core, rig.gen[0], &full);
    expect_waited_in_vain(&rig, STATUS_QUEUE_FULL,
                          "1 generation worker is ready and full: waited 5 ms");
}

Test(router_adapter, one_that_nobody_has_any_more_is_refused_where_none_waits)
{
    struct router_rig rig = router_rig_open(1, 0, true);
    struct stream stream = {0};
    report(&rig, rig.gen[0], B);
    cr_assert_eq(ask(&rig, &stream, A), STATUS_MODEL_NOT_FOUND);
    router_core_destroy(rig.core);
}

/* Of those that wait none can have the room that there is. */
Test(router_adapter, a_room_full_of_those_who_wait_for_it_keeps_nobody_else_out)
{
    struct router_rig rig = router_rig_open_waiting(2, 0, true, 2);
    struct stream waiting[2] = {{0}}, refused = {0}, others[3] = {{0}};
    report(&rig, rig.gen[0], B);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(ask(&rig, &waiting[i], A), STATUS_OK);
    cr_assert_eq(ask(&rig, &refused, A), STATUS_QUEUE_FULL, "it would wait, too");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ask(&rig, &others[i], i == 2 ? B : 0), STATUS_OK);
        cr_expect_eq(others[i].n_starts, 1);
    }
    cr_expect_eq(router_rig_n_waiting(&rig), 2);
    cr_expect_eq(waiting[0].n_starts + waiting[1].n_starts, 0);
    report(&rig, rig.gen[1], A);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(waiting[i].n_starts, 1);
        cr_expect_str_eq(waiting[i].generation_worker, "g1");
        router_rig_end(&rig, &waiting[i], STATUS_OK);
    }
    for (int i = 0; i < 3; i++)
        router_rig_end(&rig, &others[i], STATUS_OK);
    router_core_destroy(rig.core);
}
