/* dispatch_watch: people see every request that runs by its phase, the newest ones in full, those that have ended, and where
 * their KV went. */
#include "base/clock.h"
#include "router/dispatch/dispatch.h"
#include "router/dispatch/dispatch_parts.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 1000, LIVE_MAX = 64, ENDED_MAX = 3 };

struct rig {
    struct metrics *registry;
    struct router_metrics metrics;
    struct watch *watch;
    struct dispatch *dispatch;
    struct watch_view *view;
    struct door_double call;
    struct generation generations[REQUESTS]; /* number 1 first */
    struct choice choices[REQUESTS];
};

/* As dispatch does it with a request that it has placed. */
static void add(struct rig *rig, uint32_t i)
{
    struct generation *generation = &rig->generations[i];
    struct choice *choice = &rig->choices[i];
    *choice = (struct choice){.generation = generation};
    *generation = (struct generation){.call = &rig->call.base,
                                      .n_choices = 1,
                                      .choices = choice,
                                      .n_tokens = 100,
                                      .began_ns = 1000000,
                                      .number = i + 1,
                                      .next = rig->dispatch->generations};
    snprintf(generation->request_id, sizeof generation->request_id, "r%u", i + 1);
    rig->dispatch->generations = generation;
}

static struct rig *new_rig(uint32_t n)
{
    struct rig *rig = calloc(1, sizeof *rig);
    const struct watch_options watch = {
        .live_max = LIVE_MAX, .ended_max = ENDED_MAX, .interval_ms = 100, .behind_ms = 1000};
    struct error error;
    cr_assert_eq(metrics_create("router", &rig->registry), STATUS_OK);
    router_metrics_create(&rig->metrics, rig->registry);
    cr_assert_eq(watch_create(&watch, &rig->watch), STATUS_OK);
    const struct dispatch_options options = {.core = {.workers_max = 4,
                                                      .requests_max = 8,
                                                      .attempts_max = 1,
                                                      .prefixes_max = 16,
                                                      .prompt_tokens_max = 1000,
                                                      .block_tokens = 16},
                                             .metrics = &rig->metrics,
                                             .watch = rig->watch,
                                             .ended_max = ENDED_MAX};
    cr_assert_eq(dispatch_create(&options, &error, &rig->dispatch), STATUS_OK);
    door_double_init(&rig->call, "id");
    rig->view = calloc(1, sizeof *rig->view);
    rig->view->live = calloc(LIVE_MAX, sizeof *rig->view->live);
    rig->view->ended = calloc(ENDED_MAX, sizeof *rig->view->ended);
    rig->view->live_max = LIVE_MAX;
    rig->view->ended_max = ENDED_MAX;
    rig->view->now_ns = 9000000;
    for (uint32_t i = 0; i < n; i++)
        add(rig, i);
    return rig;
}

static void free_rig(struct rig *rig)
{
    rig->dispatch->generations = NULL;
    dispatch_destroy(rig->dispatch);
    watch_destroy(rig->watch);
    metrics_destroy(rig->registry);
    free(rig->view->live);
    free(rig->view->ended);
    free(rig->view);
    free(rig);
}

Test(dispatch_watch, each_phase_is_seen)
{
    struct rig *rig = new_rig(5);
    rig->choices[1].n_attempts = 1;
    rig->choices[2] = rig->choices[1];
    rig->choices[2].has_progress = true;
    rig->choices[2].n_done = 64;
    rig->choices[3] = rig->choices[2];
    rig->choices[3].first_token_ns = 3000000;
    snprintf(rig->choices[3].context_worker, sizeof rig->choices[3].context_worker, "c:1");
    rig->choices[4] = rig->choices[3];
    rig->choices[4].kv_there_ns = 4000000;
    rig->choices[4].n_generated = 7;
    dispatch_watch(rig->dispatch, rig->view);

    static const enum watch_phase phases[] = {WATCH_DECODE, WATCH_TRANSFER, WATCH_PREFILL,
                                              WATCH_PLACED, WATCH_WAITING};
    const struct watch_view *view = rig->view;
    cr_assert_eq(view->n_live, 5);
    for (uint32_t i = 0; i < 5; i++) {
        cr_expect_eq(view->live[i].phase, phases[i], "%u", i);
        cr_expect_eq(view->live[i].number, 5 - i, "the newest first");
        cr_expect_eq(view->live[i].age_us, 8000);
    }
    cr_expect_eq(view->live[0].n_done, 100, "the whole prompt");
    cr_expect_eq(view->live[0].n_generated, 7);
    cr_expect_eq(view->live[0].first_token_us, 2000);
    cr_expect_eq(view->live[0].kv_there_us, 3000);
    cr_expect_eq(view->live[2].n_done, 64);
    cr_expect_str_eq(view->live[0].id, "r5");
    cr_expect_eq(view->counts.waiting, 1);
    cr_expect_eq(view->counts.prefilling, 2);
    cr_expect_eq(view->counts.transferring, 1);
    cr_expect_eq(view->counts.decoding, 1);
    cr_expect_eq(view->lacks, STATUS_NO_GENERATION_WORKER);
    free_rig(rig);
}

Test(dispatch_watch, of_a_thousand_all_are_counted_and_the_newest_are_copied)
{
    struct rig *rig = new_rig(REQUESTS);
    dispatch_watch(rig->dispatch, rig->view);
    cr_expect_eq(rig->view->counts.live, REQUESTS);
    cr_assert_eq(rig->view->n_live, LIVE_MAX);
    cr_expect_eq(rig->view->live[0].number, REQUESTS);
    cr_expect_eq(rig->view->live[LIVE_MAX - 1].number, REQUESTS - LIVE_MAX + 1);
    free_rig(rig);
}

/* Time with the mutex held, for whoever runs it with --verbose. */
Test(dispatch_watch, of_a_thousand_again_and_again)
{
    struct rig *rig = new_rig(REQUESTS);
    const uint64_t begin_ns = clock_now_ns();
    enum { TIMES = 200 };
    for (int i = 0; i < TIMES; i++) {
        rig->view->n_live = 0;
        rig->view->counts = (struct watch_counts){0};
        dispatch_watch(rig->dispatch, rig->view);
        cr_assert_eq(rig->view->counts.live, REQUESTS);
    }
    cr_log_info("a look at %d requests: %.1f us", REQUESTS,
                (double)(clock_now_ns() - begin_ns) / TIMES / 1000);
    free_rig(rig);
}

Test(dispatch_watch, what_has_ended_is_remembered_with_its_kv)
{
    struct rig *rig = new_rig(1);
    struct choice *choice = &rig->choices[0];
    snprintf(choice->context_worker, sizeof choice->context_worker, "c:1");
    snprintf(choice->generation_worker, sizeof choice->generation_worker, "g:1");
    choice->n_attempts = 1;
    choice->placed_ns = 2000000;
    choice->first_token_ns = 3000000;
    choice->last_token_ns = 8000000;
    choice->kv_there_ns = 4000000;
    choice->n_generated = 6;
    dispatch_watch_kv(rig->dispatch, choice);
    choice->end = (struct decode_end){.has_timing = true,
                                      .queue_us = 100,
                                      .prefill_us = 700,
                                      .transfer_us = 300,
                                      .kv_bytes_received = 4096,
                                      .context_worker = "c:1",
                                      .generation_worker = "name of g"};
    dispatch_watch_kv(rig->dispatch, choice);
    dispatch_watch_kv(rig->dispatch, choice);
    rig->generations[0].status = STATUS_CANCELLED;
    dispatch_watch_end(rig->dispatch, &rig->generations[0], 9000000);
    rig->dispatch->generations = NULL;
    dispatch_watch(rig->dispatch, rig->view);

    const struct watch_view *view = rig->view;
    cr_expect_eq(view->n_live, 0);
    cr_assert_eq(view->n_ended, 1);
    const struct watch_ended *ended = &view->ended[0];
    cr_expect_str_eq(ended->id, "r1");
    cr_expect_eq(ended->status, STATUS_CANCELLED);
    cr_expect_eq(ended->total_us, 8000);
    cr_expect_eq(ended->first_token_us, 2000);
    cr_expect_eq(ended->kv_there_us, 3000);
    cr_expect_eq(ended->decode_us, 5000);
    cr_expect_eq(ended->kv_bytes, 4096);
    cr_expect_eq(ended->n_generated, 6);
    cr_expect_str_eq(ended->context_worker, "c:1");
    cr_expect_str_eq(ended->generation_worker, "g:1");
    cr_assert_eq(view->n_flows, 1);
    cr_expect_eq(view->flows[0].bytes, 4096, "counted once");
    cr_expect_eq(view->flows[0].transfers, 1);
    free_rig(rig);
}
