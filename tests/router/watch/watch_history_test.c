/* watch_history: the last ended requests stay, the oldest goes first, and so do pairs of workers that moved no KV for long. */
#include "router/watch/watch_history.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct watch_view *new_view(uint32_t ended_max)
{
    struct watch_view *view = calloc(1, sizeof *view);
    view->ended = calloc(ended_max, sizeof *view->ended);
    view->ended_max = ended_max;
    return view;
}

static void free_view(struct watch_view *view)
{
    free(view->ended);
    free(view);
}

Test(watch_history, has_the_last_requests_the_last_first)
{
    struct watch_history *history;
    struct watch_view *view = new_view(3);
    cr_assert_eq(watch_history_create(3, &history), STATUS_OK);
    watch_history_look(history, view);
    cr_expect_eq(view->n_ended, 0);
    for (uint64_t n = 1; n <= 5; n++) {
        const struct watch_ended ended = {.number = n,
                                          .status = n == 2 ? STATUS_CANCELLED : STATUS_OK};
        watch_history_add(history, &ended);
    }
    watch_history_look(history, view);
    cr_assert_eq(view->n_ended, 3);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_eq(view->ended[i].number, 5 - i);
    cr_expect_eq(view->counts.ended, 5);
    cr_expect_eq(view->counts.failed, 1);

    struct watch_view *small = new_view(2);
    watch_history_look(history, small);
    cr_expect_eq(small->n_ended, 2, "a view has its own bound");
    cr_expect_eq(small->ended[1].number, 4);
    free_view(small);
    free_view(view);
    watch_history_destroy(history);
}

Test(watch_history, adds_up_what_crossed_between_two_workers)
{
    struct watch_history *history;
    struct watch_view *view = new_view(1);
    cr_assert_eq(watch_history_create(1, &history), STATUS_OK);
    watch_history_add_kv(history, "c0:1", "g0:1", 100);
    watch_history_add_kv(history, "c0:1", "g1:1", 5);
    watch_history_add_kv(history, "c0:1", "g0:1", 23);
    watch_history_look(history, view);
    cr_assert_eq(view->n_flows, 2);
    cr_expect_str_eq(view->flows[0].to, "g0:1");
    cr_expect_eq(view->flows[0].bytes, 123);
    cr_expect_eq(view->flows[0].transfers, 2);
    cr_expect_eq(view->flows[1].bytes, 5);
    free_view(view);
    watch_history_destroy(history);
}

Test(watch_history, forgets_the_pair_that_was_idle_longest)
{
    struct watch_history *history;
    struct watch_view *view = new_view(1);
    char to[24];
    cr_assert_eq(watch_history_create(1, &history), STATUS_OK);
    for (unsigned i = 0; i < WATCH_FLOWS_MAX; i++) {
        snprintf(to, sizeof to, "g%u:1", i);
        watch_history_add_kv(history, "c:1", to, i);
    }
    watch_history_add_kv(history, "c:1", "g0:1", 7);
    watch_history_add_kv(history, "c:1", "new:1", 9);
    watch_history_look(history, view);
    cr_assert_eq(view->n_flows, WATCH_FLOWS_MAX);
    unsigned n_new = 0;
    for (unsigned i = 0; i < WATCH_FLOWS_MAX; i++) {
        cr_expect_str_neq(view->flows[i].to, "g1:1");
        n_new += strcmp(view->flows[i].to, "new:1") == 0 && view->flows[i].bytes == 9;
    }
    cr_expect_eq(n_new, 1);
    cr_expect_eq(view->flows[0].bytes, 7, "it was used again");
    free_view(view);
    watch_history_destroy(history);
}
