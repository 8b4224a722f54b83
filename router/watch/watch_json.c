#include "router/watch/watch_json.h"

#include "base/build_info.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "router/watch/timeline.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* jansson's setters take over the value, also if they fail, and fail with NULL: so each call may be unchecked as long as the
 * whole is looked at. A failed one makes its object bad. */
static void set(json_t *object, const char *key, json_t *value, bool *is_whole)
{
    *is_whole &= json_object_set_new(object, key, value) == 0;
}

static void set_number(json_t *object, const char *key, uint64_t value, bool *is_whole)
{
    set(object, key, json_integer((json_int_t)value), is_whole);
}

static void set_text(json_t *object, const char *key, const char *text, bool *is_whole)
{
    char clean[512];
    utf8_clean(text, strlen(text), clean, sizeof clean);
    set(object, key, json_string(clean), is_whole);
}

static json_t *blocks_json(const struct process_blocks *blocks, bool *is_whole)
{
    json_t *json = json_object();
    set_number(json, "all", blocks->all, is_whole);
    set_number(json, "free", blocks->free, is_whole);
    set_number(json, "active", blocks->active, is_whole);
    set_number(json, "cached", blocks->cached, is_whole);
    set_number(json, "pinned", blocks->pinned, is_whole);
    set_number(json, "inbound", blocks->inbound, is_whole);
    set_number(json, "quarantined", blocks->quarantined, is_whole);
    return json;
}

static const char *state_word(enum watch_worker_state state)
{
    static const char *const words[] = {[WATCH_READY] = "ready",
                                        [WATCH_NOT_READY] = "not ready",
                                        [WATCH_DRAINING] = "draining",
                                        [WATCH_NO_ANSWER] = "no answer"};
    return words[state];
}

static json_t *worker_json(const struct watch_worker *worker, bool *is_whole)
{
    json_t *json = json_object();
    set_text(json, "address", worker->address, is_whole);
    set_text(json, "name", worker->name[0] ? worker->name : worker->address, is_whole);
    set_text(json, "role", worker->is_context ? "context" : "generation", is_whole);
    set_text(json, "state", state_word(worker->state), is_whole);
    set(json, "used", json_boolean(worker->is_used), is_whole);
    set_text(json, "reason", worker->reason, is_whole);
    if (!worker->has_state)
        return json;
    set_number(json, "running", worker->running, is_whole);
    set_number(json, "waiting", worker->waiting, is_whole);
    set(json, "blocks", blocks_json(&worker->blocks, is_whole), is_whole);
    set_number(json, "prompts", worker->prefills.n, is_whole);
    set_number(json, "prompt_tokens", worker->prefills.tokens, is_whole);
    set_number(json, "prompt_done", worker->prefills.done_tokens, is_whole);
    set_number(json, "kv_in", worker->kv_bytes_received, is_whole);
    set_number(json, "kv_out", worker->kv_bytes_sent, is_whole);
    set_number(json, "uptime_ms", worker->uptime_ms, is_whole);
    set_text(json, "transport", worker->transport, is_whole);
    return json;
}

static json_t *flow_json(const struct watch_flow *flow, bool *is_whole)
{
    json_t *json = json_object();
    set_text(json, "from", flow->from, is_whole);
    set_text(json, "to", flow->to, is_whole);
    set_number(json, "bytes", flow->bytes, is_whole);
    set_number(json, "transfers", flow->transfers, is_whole);
    return json;
}

static const char *phase_word(enum watch_phase phase)
{
    static const char *const words[] = {[WATCH_WAITING] = "waiting",
                                        [WATCH_PLACED] = "placed",
                                        [WATCH_PREFILL] = "prefill",
                                        [WATCH_TRANSFER] = "transfer",
                                        [WATCH_DECODE] = "decode"};
    return words[phase];
}

static json_t *live_json(const struct watch_request *request, bool names, bool *is_whole)
{
    json_t *json = json_object();
    set_number(json, "n", request->number, is_whole);
    set_text(json, "id", names ? request->id : "", is_whole);
    set_text(json, "tenant", names ? request->tenant : "", is_whole);
    set_text(json, "phase", phase_word(request->phase), is_whole);
    set_number(json, "age", request->age_us, is_whole);
    set_number(json, "placed", request->placed_us, is_whole);
    set_number(json, "first_token", request->first_token_us, is_whole);
    set_number(json, "kv_there", request->kv_there_us, is_whole);
    set_number(json, "prompt", request->n_prompt, is_whole);
    set_number(json, "done", request->n_done, is_whole);
    set_number(json, "generated", request->n_generated, is_whole);
    set_number(json, "choices", request->n_choices, is_whole);
    set_number(json, "attempts", request->n_attempts, is_whole);
    set_text(json, "context", request->context_worker, is_whole);
    set_text(json, "generation", request->generation_worker, is_whole);
    return json;
}

static json_t *part_json(const struct timeline_part *part)
{
    return json_pack("[I, I]", (json_int_t)part->from_us, (json_int_t)part->us);
}

static json_t *timeline_json(const struct watch_ended *ended, bool *is_whole)
{
    const struct timeline_times times = {
        .first_token_us = ended->first_token_us,
        .kv_there_us = ended->kv_there_us,
        .total_us = ended->total_us,
        .queue_us = ended->queue_us,
        .prefill_us = ended->prefill_us,
        .transfer_us = ended->transfer_us,
        .decode_us = ended->decode_us,
    };
    struct timeline timeline;
    json_t *json = json_object();
    timeline_make(&times, &timeline);
    set(json, "route", part_json(&timeline.route), is_whole);
    set(json, "queue", part_json(&timeline.queue), is_whole);
    set(json, "prefill", part_json(&timeline.prefill), is_whole);
    set(json, "transfer", part_json(&timeline.transfer), is_whole);
    set(json, "decode", part_json(&timeline.decode), is_whole);
    return json;
}

static json_t *ended_json(const struct watch_ended *ended, uint64_t now_ns, bool names,
                          bool *is_whole)
{
    json_t *json = json_object();
    set_number(json, "n", ended->number, is_whole);
    set_text(json, "id", names ? ended->id : "", is_whole);
    set_text(json, "tenant", names ? ended->tenant : "", is_whole);
    set_text(json, "status", status_name(ended->status), is_whole);
    /* It may have ended since the view was begun. */
    set_number(json, "ago_ms",
               now_ns > ended->ended_ns ? (now_ns - ended->ended_ns) / NS_PER_MS : 0, is_whole);
    set_number(json, "total", ended->total_us, is_whole);
    set_number(json, "first_token", ended->first_token_us, is_whole);
    set_number(json, "prompt", ended->n_prompt, is_whole);
    set_number(json, "cached", ended->n_cached, is_whole);
    set_number(json, "generated", ended->n_generated, is_whole);
    set_number(json, "choices", ended->n_choices, is_whole);
    set_number(json, "attempts", ended->n_attempts, is_whole);
    set_number(json, "kv_bytes", ended->kv_bytes, is_whole);
    set_text(json, "context", ended->context_worker, is_whole);
    set_text(json, "generation", ended->generation_worker, is_whole);
    set_text(json, "transport", ended->transport, is_whole);
    set_text(json, "place", prefill_place_name(ended->place), is_whole);
    set(json, "parts", timeline_json(ended, is_whole), is_whole);
    return json;
}

static json_t *router_json(const struct watch_view *view, bool *is_whole)
{
    json_t *json = json_object();
    bool is_ready = view->is_serving && view->lacks == STATUS_OK;
    set_text(json, "name", view->name, is_whole);
    set_text(json, "model", view->model, is_whole);
    set_text(json, "version", build_version(), is_whole);
    set_text(json, "state",
             view->is_draining ? "draining"
             : is_ready        ? "ready"
                               : "not ready",
             is_whole);
    set_text(json, "reason",
             is_ready           ? ""
             : view->is_serving ? status_text(view->lacks)
                                : status_text(STATUS_LOADING),
             is_whole);
    set_number(json, "uptime_ms", view->uptime_ms, is_whole);
    return json;
}

static json_t *counts_json(const struct watch_view *view, bool *is_whole)
{
    const struct watch_counts *counts = &view->counts;
    json_t *json = json_object();
    set_number(json, "live", counts->live + view->n_early, is_whole);
    set_number(json, "waiting", counts->waiting + view->n_early, is_whole);
    set_number(json, "prefill", counts->prefilling, is_whole);
    set_number(json, "transfer", counts->transferring, is_whole);
    set_number(json, "decode", counts->decoding, is_whole);
    set_number(json, "ended", counts->ended, is_whole);
    set_number(json, "failed", counts->failed, is_whole);
    set_number(json, "tokens", counts->tokens, is_whole);
    return json;
}

static void append(json_t *array, json_t *value, bool *is_whole)
{
    *is_whole &= json_array_append_new(array, value) == 0;
}

static json_t *view_json(const struct watch_view *view, bool names, bool *is_whole)
{
    json_t *root = json_object();
    json_t *workers = json_array(), *flows = json_array();
    json_t *live = json_array(), *ended = json_array();
    for (uint32_t i = 0; i < view->n_workers; i++)
        append(workers, worker_json(&view->workers[i], is_whole), is_whole);
    for (uint32_t i = 0; i < view->n_flows; i++)
        append(flows, flow_json(&view->flows[i], is_whole), is_whole);
    for (uint32_t i = 0; i < view->n_live; i++)
        append(live, live_json(&view->live[i], names, is_whole), is_whole);
    for (uint32_t i = 0; i < view->n_ended; i++)
        append(ended, ended_json(&view->ended[i], view->now_ns, names, is_whole), is_whole);
    set(root, "router", router_json(view, is_whole), is_whole);
    set(root, "names", json_boolean(names), is_whole);
    set(root, "counts", counts_json(view, is_whole), is_whole);
    set(root, "workers", workers, is_whole);
    set(root, "flows", flows, is_whole);
    set(root, "live", live, is_whole);
    set(root, "ended", ended, is_whole);
    return root;
}

enum status watch_json(const struct watch_view *view, bool names, char **text_out, size_t *n_out)
{
    bool is_whole = true;
    json_t *root = view_json(view, names, &is_whole);
    char *text = is_whole ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return STATUS_NO_MEMORY;
    *text_out = text;
    *n_out = strlen(text);
    return STATUS_OK;
}
