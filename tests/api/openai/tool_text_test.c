/* tool_text, tool_reply: calls come out of the text as they were meant, however it is cut; a text that ends early gives what it has. */
#include "api/openai/tool_reply.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TEXT                                                                                       \
    " [ {\"name\" : \"f\",\n\"parameters\": {\"name\": \"x\", \"b\": [1, {\"}\": \"\\\"]\"}]} },"  \
    "{\"name\":\"a\\u00e9\\\"b\",\"parameters\":{}}, {\"name\":\"g\",\"parameters\":12 }] "

/* As a client puts deltas together. */
static void feed(json_t *calls, struct tool_text *text, const char *bytes, size_t n_bytes)
{
    struct tool_piece piece;
    for (size_t at = 0, n; at < n_bytes; at += n) {
        n = n_bytes - at;
        if (!tool_text_next(text, bytes + at, &n, &piece))
            continue;
        json_t *delta = tool_reply_delta(&piece, "h");
        const char *more = json_string_value(
            json_object_get(json_object_get(delta, "function"), "arguments"));
        char joined[400];
        cr_assert_eq(json_integer_value(json_object_get(delta, "index")), piece.index);
        cr_assert_eq(json_array_size(calls) == piece.index, piece.is_new);
        if (piece.is_new) {
            cr_assert_eq(strncmp(json_string_value(json_object_get(delta, "id")), "call_", 5), 0);
            cr_assert_eq(json_array_append(calls, json_object_get(delta, "function")), 0);
        } else {
            json_t *function = json_array_get(calls, piece.index);
            snprintf(joined, sizeof joined, "%s%s",
                     json_string_value(json_object_get(function, "arguments")), more);
            json_object_set_new(function, "arguments", json_string(joined));
        }
        json_decref(delta);
    }
}

static void expect_call(const json_t *calls, size_t i, const char *name, const char *arguments)
{
    const json_t *function = json_array_get(calls, i);
    cr_assert_str_eq(json_string_value(json_object_get(function, "name")), name);
    cr_assert_str_eq(json_string_value(json_object_get(function, "arguments")), arguments);
}

Test(tool_text, calls_are_found_however_the_text_is_cut)
{
    const size_t bytes = strlen(TEXT);
    for (size_t step = 1; step <= bytes; step++) {
        struct tool_text text;
        json_t *calls = json_array();
        tool_text_init(&text, TOOL_REQUIRED);
        for (size_t at = 0; at < bytes; at += step)
            feed(calls, &text, &TEXT[at], at + step < bytes ? step : bytes - at);
        cr_assert_eq(json_array_size(calls), 3, "%zu", step);
        expect_call(calls, 0, "f", "{\"name\": \"x\", \"b\": [1, {\"}\": \"\\\"]\"}]}");
        expect_call(calls, 1, "a\xc3\xa9\"b", "{}");
        expect_call(calls, 2, "g", "12");
        json_decref(calls);
    }
}

Test(tool_text, the_text_of_a_named_function_is_its_arguments)
{
    struct tool_text text;
    json_t *calls = json_array();
    tool_text_init(&text, TOOL_NAMED);
    feed(calls, &text, "{\"a\":", 5);
    feed(calls, &text, " 1}", 3);
    cr_assert_eq(json_array_size(calls), 1);
    expect_call(calls, 0, "h", "{\"a\": 1}");
    json_decref(calls);
}

Test(tool_text, a_whole_message_has_what_the_text_has)
{
    json_t *calls = tool_reply_calls(TOOL_REQUIRED, "", TEXT, strlen(TEXT));
    cr_assert_eq(json_array_size(calls), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *call = json_array_get(calls, i);
        cr_assert_str_eq(json_string_value(json_object_get(call, "type")), "function");
        cr_assert_null(json_object_get(call, "index"));
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(json_string_value(json_object_get(call, "id")),
                              json_string_value(json_object_get(json_array_get(calls, k), "id")));
    }
    json_decref(calls);
    for (size_t n = 0; n < strlen(TEXT); n++) {
        calls = tool_reply_calls(TOOL_REQUIRED, "", TEXT, n);
        cr_assert_leq(json_array_size(calls), 3);
        cr_assert_eq(json_array_size(calls) == 0,
                     n < (size_t)(strstr(TEXT, "{\"name\": \"x\"") - TEXT) + 1, "%zu", n);
        json_decref(calls);
    }
}

/* A text that fits no schema. */
Test(tool_text, anything_is_read_without_harm)
{
    static const char *const TEXTS[] = {"]]]]{{{{", "{\"parameters\":1}",
                                        "[{\"name\":5,\"parameters\":{}}]", "\"\\",
                                        "[{\"name\":\"f\",\"name\":\"g\",\"parameters\":"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        json_t *calls = tool_reply_calls(TOOL_REQUIRED, "", TEXTS[i], strlen(TEXTS[i]));
        cr_assert_not_null(calls);
        cr_assert_eq(json_array_size(calls), 0, "%s", TEXTS[i]);
        json_decref(calls);
    }
}
