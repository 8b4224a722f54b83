#include "cli/client/trace_json.h"

#include "base/build_info.h"
#include "base/utf8.h"
#include "process/process_state.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The processes of a trace, in the order shown. */
enum { CLIENT = 1, ROUTER, CONTEXT, TRANSFER, GENERATION };

struct trace {
    json_t *events;
    bool is_whole;
};

/* Takes the event over. */
static void add(struct trace *trace, json_t *event)
{
    trace->is_whole &= json_array_append_new(trace->events, event) == 0;
}

static void name_process(struct trace *trace, int pid, const char *role, const char *name)
{
    char text[ADDRESS_TEXT_MAX + 32], clean[sizeof text];
    snprintf(text, sizeof text, "%s%s%s", role, name[0] ? " " : "", name);
    utf8_clean(text, strlen(text), clean, sizeof clean);
    add(trace, json_pack("{s:s, s:i, s:s, s:{s:s}}", "ph", "M", "pid", pid, "name", "process_name",
                         "args", "name", clean));
    add(trace, json_pack("{s:s, s:i, s:s, s:{s:i}}", "ph", "M", "pid", pid, "name",
                         "process_sort_index", "args", "sort_index", pid));
}

/* Takes args over; NULL: none. A stage without a length is none. */
static void add_part(struct trace *trace, int pid, const char *name,
                     const struct timeline_part *part, json_t *args)
{
    if (part->us == 0) {
        json_decref(args);
        return;
    }
    add(trace, json_pack("{s:s, s:i, s:i, s:s, s:s, s:I, s:I, s:o}", "ph", "X", "pid", pid, "tid",
                         1, "cat", "request", "name", name, "ts", (json_int_t)part->from_us, "dur",
                         (json_int_t)part->us, "args", args ? args : json_object()));
}

/* A viewer draws an arrow only from within a stage to within another. */
static uint64_t within(uint64_t us, const struct timeline_part *part)
{
    const uint64_t end_us = part->from_us + part->us;
    return us < part->from_us ? part->from_us : us > end_us ? end_us : us;
}

static void add_arrow(struct trace *trace, int id, int from, uint64_t from_us, int to,
                      uint64_t to_us)
{
    add(trace, json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:I}", "ph", "s", "id", id, "pid", from,
                         "tid", 1, "cat", "request", "name", "KV", "ts", (json_int_t)from_us));
    add(trace,
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:I}", "ph", "f", "bp", "e", "id", id, "pid",
                  to, "tid", 1, "cat", "request", "name", "KV", "ts", (json_int_t)to_us));
}

static json_t *prefill_args(const struct generation_result *result)
{
    char reason[sizeof result->prefill_reason];
    utf8_clean(result->prefill_reason, strlen(result->prefill_reason), reason, sizeof reason);
    return json_pack("{s:I, s:I, s:s, s:s}", "prompt_tokens", (json_int_t)result->prompt_tokens,
                     "cached_tokens", (json_int_t)result->cached_tokens, "place",
                     prefill_place_name(result->prefill_place), "reason", reason);
}

static json_t *transfer_args(const struct generation_result *result)
{
    char transport[sizeof result->transport];
    utf8_clean(result->transport, strlen(result->transport), transport, sizeof transport);
    return json_pack("{s:I, s:I, s:s}", "kv_bytes", (json_int_t)result->kv_bytes_received,
                     "kv_tokens", (json_int_t)result->kv_tokens_received, "transport", transport);
}

static void add_stages(struct trace *trace, const struct generation_result *result)
{
    struct timeline timeline;
    generation_result_timeline(result, &timeline);
    const bool is_remote = result->context_worker[0] != '\0';
    const int prefill = is_remote ? CONTEXT : GENERATION;
    const struct timeline_part whole = {0, timeline.total_us};
    add_part(trace, CLIENT, "request", &whole,
             json_pack("{s:I, s:I}", "first_token_us", (json_int_t)timeline.decode.from_us,
                       "generated_tokens", (json_int_t)result->generated_tokens));
    add_part(trace, ROUTER, "route", &timeline.route, NULL);
    add_part(trace, prefill, "queue", &timeline.queue, NULL);
    add_part(trace, prefill, "prefill", &timeline.prefill, prefill_args(result));
    add_part(trace, TRANSFER, "transfer", &timeline.transfer, transfer_args(result));
    add_part(trace, GENERATION, "decode", &timeline.decode,
             json_pack("{s:I}", "generated_tokens", (json_int_t)result->generated_tokens));
    if (!is_remote || timeline.transfer.us == 0 || timeline.decode.us == 0)
        return;
    const uint64_t begin_us = timeline.transfer.from_us, end_us = begin_us + timeline.transfer.us;
    add_arrow(trace, 1, CONTEXT, within(begin_us, &timeline.prefill), TRANSFER, begin_us);
    add_arrow(trace, 2, TRANSFER, end_us, GENERATION, within(end_us, &timeline.decode));
}

enum status trace_json(const struct generation_result *result, char **text_out)
{
    struct trace trace = {.events = json_array(), .is_whole = true};
    const bool is_remote = result->context_worker[0] != '\0';
    char id[sizeof result->request_id];
    utf8_clean(result->request_id, strlen(result->request_id), id, sizeof id);
    name_process(&trace, CLIENT, "client", "");
    name_process(&trace, ROUTER, "router", "");
    if (is_remote) {
        name_process(&trace, CONTEXT, "context worker", result->context_worker);
        name_process(&trace, TRANSFER, "KV transfer", result->transport);
    }
    name_process(&trace, GENERATION, "generation worker", result->generation_worker);
    add_stages(&trace, result);
    json_t *root = json_pack("{s:s, s:{s:s, s:s}, s:o}", "displayTimeUnit", "ms", "otherData",
                             "request_id", id, "kvferry", build_version(), "traceEvents",
                             trace.events);
    char *text = trace.is_whole && root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text)
        return STATUS_NO_MEMORY;
    *text_out = text;
    return STATUS_OK;
}
