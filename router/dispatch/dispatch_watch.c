/* dispatch_watch - what people see of dispatch: requests that run, those that have ended, and their KV. */
#include "router/dispatch/dispatch.h"
#include "router/dispatch/dispatch_parts.h"
#include "router/requests/choice_end.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint64_t us_since(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

void dispatch_watch_kv(struct dispatch *dispatch, struct choice *choice)
{
    const struct decode_end *end = &choice->end;
    if (!dispatch->history || choice->is_kv_counted || !end->has_timing ||
        end->kv_bytes_received == 0)
        return;
    choice->is_kv_counted = true;
    watch_history_add_kv(dispatch->history, choice->context_worker, choice->generation_worker,
                         end->kv_bytes_received);
}

/* Its times are those of the first choice, whose prompt was computed. */
void dispatch_watch_end(struct dispatch *dispatch, const struct generation *generation,
                        uint64_t now_ns)
{
    const struct choice *first = &generation->choices[0];
    struct reply_end end;
    if (!dispatch->history)
        return;
    choice_end_make(first, &end);
    const Kvferry__V1__Timing *timing = &end.timing;
    struct watch_ended ended = {
        .number = generation->number,
        .status = generation->status,
        .ended_ns = now_ns,
        .first_token_us = timing->first_token_us,
        .kv_there_us = us_since(generation->began_ns, first->kv_there_ns),
        .total_us = us_since(generation->began_ns, now_ns),
        .queue_us = timing->queue_us,
        .prefill_us = timing->prefill_us,
        .transfer_us = timing->transfer_us,
        .decode_us = first->first_token_ns ? timing->decode_us : 0,
        .kv_bytes = timing->kv_bytes_received,
        .n_prompt = generation->n_tokens,
        .n_cached = end.usage.cached_tokens,
        .n_generated = generation_n_generated(generation),
        .n_choices = generation->n_choices,
        .n_attempts = first->n_attempts,
        .place = timing->prefill_place,
    };
    memcpy(ended.id, generation->request_id, sizeof ended.id);
    snprintf(ended.tenant, sizeof ended.tenant, "%s", generation_tenant(generation));
    bool is_remote = timing->context_worker && timing->context_worker[0];
    snprintf(ended.context_worker, sizeof ended.context_worker, "%s",
             is_remote ? first->context_worker : "");
    snprintf(ended.generation_worker, sizeof ended.generation_worker, "%s",
             first->generation_worker);
    snprintf(ended.transport, sizeof ended.transport, "%s", timing->transport);
    watch_history_add(dispatch->history, &ended);
}

static enum watch_phase phase_of(const struct choice *choice)
{
    if (choice->first_token_ns)
        return choice->kv_there_ns || !choice->context_worker[0] ? WATCH_DECODE : WATCH_TRANSFER;
    if (choice->has_progress)
        return WATCH_PREFILL;
    return choice->n_attempts > 0 ? WATCH_PLACED : WATCH_WAITING;
}

static void count(enum watch_phase phase, struct watch_counts *counts)
{
    counts->live++;
    counts->waiting += phase == WATCH_WAITING;
    counts->prefilling += phase == WATCH_PLACED || phase == WATCH_PREFILL;
    counts->transferring += phase == WATCH_TRANSFER;
    counts->decoding += phase == WATCH_DECODE;
}

static void copy(const struct generation *generation, enum watch_phase phase, uint64_t now_ns,
                 struct watch_request *out)
{
    const struct choice *first = &generation->choices[0];
    *out = (struct watch_request){
        .number = generation->number,
        .phase = phase,
        .age_us = us_since(generation->began_ns, now_ns),
        .placed_us = us_since(generation->began_ns, first->placed_ns),
        .first_token_us = us_since(generation->began_ns, first->first_token_ns),
        .kv_there_us = us_since(generation->began_ns, first->kv_there_ns),
        .n_prompt = generation->n_tokens,
        .n_done = first->first_token_ns ? generation->n_tokens : first->n_done,
        .n_generated = generation_n_generated(generation),
        .n_choices = generation->n_choices,
        .n_attempts = first->n_attempts,
    };
    memcpy(out->id, generation->request_id, sizeof out->id);
    snprintf(out->tenant, sizeof out->tenant, "%s", generation_tenant(generation));
    snprintf(out->context_worker, sizeof out->context_worker, "%s", first->context_worker);
    snprintf(out->generation_worker, sizeof out->generation_worker, "%s", first->generation_worker);
}

void dispatch_watch(struct dispatch *dispatch, struct watch_view *view)
{
    assert(dispatch->history);
    dispatch_lock(dispatch);
    view->lacks = router_core_lacks(dispatch->core);
    for (const struct generation *at = dispatch->generations; at; at = at->next) {
        enum watch_phase phase = phase_of(&at->choices[0]);
        count(phase, &view->counts);
        if (view->n_live < view->live_max)
            copy(at, phase, view->now_ns, &view->live[view->n_live++]);
    }
    view->counts.tokens = counter_value(dispatch->metrics->series.relayed);
    watch_history_look(dispatch->history, view);
    dispatch_unlock(dispatch);
}
