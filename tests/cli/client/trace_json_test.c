/* trace_json: a trace has the form that Perfetto reads: every event has its keys, every process a name, and no time is
 * negative or beyond the request. */
#include "cli/client/trace_json.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL_US 800000

static struct generation_result split(void)
{
    return (struct generation_result){
        .prompt_tokens = 1500,
        .generated_tokens = 51,
        .queue_us = 120,
        .prefill_us = 250000,
        .transfer_us = 1234,
        .decode_us = 500000,
        .first_seen_us = 260000,
        .second_seen_us = 262000,
        .last_seen_us = TOTAL_US,
        .kv_bytes_received = 3840000,
        .context_worker = "127.0.0.1:1",
        .generation_worker = "127.0.0.1:2",
        .transport = "am-tcp",
        .request_id = "mine",
        .prefill_place = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER,
    };
}

static json_t *trace_of(const struct generation_result *result)
{
    char *text;
    cr_assert_eq(trace_json(result, &text), STATUS_OK);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root, "%s", text);
    free(text);
    return root;
}

static json_int_t number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    cr_assert(json_is_integer(value), "%s is no number", key);
    return json_integer_value(value);
}

static const char *text(const json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));
    cr_assert_not_null(value, "%s is no text", key);
    return value;
}

static void check_event(const json_t *event, unsigned *named)
{
    char kind = text(event, "ph")[0];
    json_int_t pid = number(event, "pid");
    cr_assert(pid >= 1 && pid <= 5);
    (void)text(event, "name");
    if (kind == 'M') {
        cr_assert(json_is_object(json_object_get(event, "args")));
        *named |= 1u << pid;
        return;
    }
    cr_assert(strchr("Xsf", kind), "%c", kind);
    cr_assert(*named & 1u << pid, "a process has its name before its events");
    cr_assert_eq(number(event, "tid"), 1);
    json_int_t ts = number(event, "ts");
    json_int_t dur = kind == 'X' ? number(event, "dur") : 0;
    cr_assert(ts >= 0 && dur >= 0 && ts + dur <= TOTAL_US);
    cr_assert(kind != 'X' || dur > 0);
    cr_assert(kind == 'X' || number(event, "id") > 0);
}

/* Of the stage of that name: its process; 0: there is none. */
static json_int_t process_of(const json_t *events, const char *name)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event) if (strcmp(text(event, "ph"), "X") == 0 &&
                                             strcmp(text(event, "name"), name) ==
                                                 0) return number(event, "pid");
    return 0;
}

/* Each arrow is between two stages, at times that are theirs; how many there are. */
static unsigned check_arrows(const json_t *events)
{
    size_t i, k;
    const json_t *arrow, *stage;
    unsigned n = 0;
    json_array_foreach(events, i, arrow)
    {
        bool is_in_stage = text(arrow, "ph")[0] != 's' && text(arrow, "ph")[0] != 'f';
        n += !is_in_stage;
        json_array_foreach(events, k, stage)
        {
            if (is_in_stage || text(stage, "ph")[0] != 'X' ||
                number(stage, "pid") != number(arrow, "pid"))
                continue;
            json_int_t at = number(arrow, "ts") - number(stage, "ts");
            is_in_stage = at >= 0 && at <= number(stage, "dur");
        }
        cr_expect(is_in_stage, "an arrow at %lld of process %lld", (long long)number(arrow, "ts"),
                  (long long)number(arrow, "pid"));
    }
    return n / 2;
}

static const json_t *check(const json_t *root)
{
    size_t i;
    const json_t *event, *events = json_object_get(root, "traceEvents");
    unsigned named = 0;
    cr_assert(json_is_array(events));
    cr_assert_str_eq(text(root, "displayTimeUnit"), "ms");
    json_array_foreach(events, i, event) check_event(event, &named);
    return events;
}

Test(trace_json, each_process_has_its_track)
{
    const struct generation_result result = split();
    json_t *root = trace_of(&result);
    const json_t *events = check(root);
    cr_expect_eq(process_of(events, "request"), 1);
    cr_expect_eq(process_of(events, "route"), 2);
    cr_expect_eq(process_of(events, "queue"), 3);
    cr_expect_eq(process_of(events, "prefill"), 3);
    cr_expect_eq(process_of(events, "transfer"), 4);
    cr_expect_eq(process_of(events, "decode"), 5);
    cr_expect_str_eq(text(json_object_get(root, "otherData"), "request_id"), "mine");
    cr_expect_eq(check_arrows(events), 2);
    json_decref(root);
}

Test(trace_json, kv_that_moves_while_the_prompt_is_computed_has_its_arrows)
{
    struct generation_result result = split();
    result.transfer_us = 100000;
    json_t *root = trace_of(&result);
    cr_expect_eq(check_arrows(check(root)), 2);
    json_decref(root);
}

Test(trace_json, a_prompt_computed_where_it_decodes_has_no_transfer)
{
    struct generation_result result = split();
    result.context_worker[0] = '\0';
    result.transfer_us = 0;
    json_t *root = trace_of(&result);
    const json_t *events = check(root);
    cr_expect_eq(process_of(events, "prefill"), 5);
    cr_expect_eq(process_of(events, "transfer"), 0);
    json_decref(root);
}

Test(trace_json, hostile_names_stay_text)
{
    struct generation_result result = split();
    snprintf(result.context_worker, sizeof result.context_worker, "\"}]<script>\n\xff");
    snprintf(result.prefill_reason, sizeof result.prefill_reason, "\x1b[31m\xff\"");
    snprintf(result.request_id, sizeof result.request_id, "a\"b\\");
    json_t *root = trace_of(&result);
    (void)check(root);
    cr_expect_str_eq(text(json_object_get(root, "otherData"), "request_id"), "a\"b\\");
    json_decref(root);
}
