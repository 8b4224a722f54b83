#include "router/watch/watch_history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch_history {
    struct watch_ended *ended; /* [ended_max] a ring */
    uint32_t ended_max, next;
    uint64_t n_ended, n_failed;
    struct watch_flow flows[WATCH_FLOWS_MAX];
    uint32_t n_flows;
    uint64_t n_uses;
};

enum status watch_history_create(uint32_t ended_max, struct watch_history **history_out)
{
    assert(ended_max > 0);
    struct watch_history *history = calloc(1, sizeof *history);
    if (!history)
        return STATUS_NO_MEMORY;
    history->ended_max = ended_max;
    history->ended = calloc(ended_max, sizeof *history->ended);
    if (!history->ended) {
        watch_history_destroy(history);
        return STATUS_NO_MEMORY;
    }
    *history_out = history;
    return STATUS_OK;
}

void watch_history_destroy(struct watch_history *history)
{
    if (!history)
        return;
    free(history->ended);
    free(history);
}

void watch_history_add(struct watch_history *history, const struct watch_ended *ended)
{
    assert(history->next < history->ended_max);
    history->ended[history->next] = *ended;
    history->next = (history->next + 1) % history->ended_max;
    history->n_ended++;
    history->n_failed += ended->status != STATUS_OK;
}

/* That of the pair, or a new one. */
static struct watch_flow *flow_of(struct watch_history *history, const char *from, const char *to)
{
    struct watch_flow *oldest = &history->flows[0];
    for (uint32_t i = 0; i < history->n_flows; i++) {
        struct watch_flow *flow = &history->flows[i];
        if (strcmp(flow->from, from) == 0 && strcmp(flow->to, to) == 0)
            return flow;
        if (flow->used < oldest->used)
            oldest = flow;
    }
    struct watch_flow *fresh = history->n_flows < WATCH_FLOWS_MAX
                                   ? &history->flows[history->n_flows++]
                                   : oldest;
    *fresh = (struct watch_flow){0};
    snprintf(fresh->from, sizeof fresh->from, "%s", from);
    snprintf(fresh->to, sizeof fresh->to, "%s", to);
    return fresh;
}

void watch_history_add_kv(struct watch_history *history, const char *from, const char *to,
                          uint64_t bytes)
{
    struct watch_flow *flow = flow_of(history, from, to);
    flow->bytes += bytes;
    flow->transfers++;
    flow->used = ++history->n_uses;
}

void watch_history_look(const struct watch_history *history, struct watch_view *view_out)
{
    uint32_t n = history->n_ended < history->ended_max ? (uint32_t)history->n_ended
                                                       : history->ended_max;
    view_out->n_ended = n < view_out->ended_max ? n : view_out->ended_max;
    for (uint32_t i = 0; i < view_out->n_ended; i++) {
        uint32_t at = (history->next + history->ended_max - 1 - i) % history->ended_max;
        view_out->ended[i] = history->ended[at];
    }
    view_out->n_flows = history->n_flows;
    memcpy(view_out->flows, history->flows, history->n_flows * sizeof *history->flows);
    view_out->counts.ended = history->n_ended;
    view_out->counts.failed = history->n_failed;
}
