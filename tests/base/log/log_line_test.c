/* log_line: fields are keys of their own in JSON, words for people, and a line is whole at any length:
 * read back by jansson. */

#include "base/log/log_line.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct log_line line;

static const char *format(bool is_json, const struct log_about *about, const char *event,
                          const struct log_field *fields, size_t n)
{
    const struct log_line_head head = {"info", "router", "10.0.0.9:50052", is_json};
    log_line_format(&line, &head, about, event, fields, n);
    cr_assert_lt(line.length, sizeof line.text);
    line.text[line.length] = '\0';
    cr_assert_eq(strchr(line.text, '\n'), line.text + line.length - 1, "one line, and whole");
    return line.text;
}

/* As machines read it; the caller's to decref. */
static json_t *read_json(const struct log_about *about, const char *event,
                         const struct log_field *fields, size_t n)
{
    json_error_t error;
    const char *text = format(true, about, event, fields, n);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    cr_assert(root, "%s in: %s", error.text, text);
    return root;
}

static const char *text_of(const json_t *root, const char *key)
{
    const char *text = json_string_value(json_object_get(root, key));
    cr_assert(text, "no text %s", key);
    return text;
}

static const struct trace_context TRACE = {{0xab, 1}, {2}, true};

Test(log_line, fields_are_keys_of_their_own_in_json)
{
    const struct log_about about = {.request_id = "a b\"c", .trace = &TRACE, .peer = "ipv4:x"};
    const struct log_field fields[] = {LOG_U64("blocks", INT64_MAX),
                                       LOG_F64("took_ms", 12.3456),
                                       LOG_TEXT("why", "two words, \"quoted\" \\ and k=v"),
                                       LOG_HEX("incarnation", 0xabcdu),
                                       LOG_TEXT("missing", NULL),
                                       LOG_TEXT("empty", ""),
                                       LOG_F64("no_number", NAN)};
    json_t *root = read_json(&about, "hand-over done", fields, 7);
    cr_expect_str_eq(text_of(root, "msg"), "hand-over done");
    cr_expect_str_eq(text_of(root, "level"), "info");
    cr_expect_str_eq(text_of(root, "role"), "router");
    cr_expect_str_eq(text_of(root, "name"), "10.0.0.9:50052");
    cr_expect_str_eq(text_of(root, "request_id"), "a b\"c");
    cr_expect_str_eq(text_of(root, "trace_id"), "ab010000000000000000000000000000");
    cr_expect_str_eq(text_of(root, "peer"), "ipv4:x");
    cr_expect_str_eq(text_of(root, "why"), "two words, \"quoted\" \\ and k=v");
    cr_expect_eq(json_number_value(json_object_get(root, "took_ms")), 12.346);
    cr_expect(strstr(line.text, "\"blocks\":9223372036854775807,"));
    cr_expect_null(json_object_get(root, "missing"));
    cr_expect_null(json_object_get(root, "empty"));
    cr_expect_null(json_object_get(root, "no_number"));
    cr_expect_null(json_object_get(root, "cut"));
    cr_expect_str_eq(text_of(root, "incarnation"), "000000000000abcd");
    cr_expect_eq(json_object_size(root), 12);
    json_decref(root);
}

Test(log_line, people_get_the_same_as_words)
{
    const struct log_about about = {.request_id = "abc", .trace = &TRACE, .peer = "ipv4:x"};
    const struct log_field fields[] = {LOG_U64("blocks", 12), LOG_F64("took_ms", 0.5),
                                       LOG_TEXT("one", "word"), LOG_TEXT("why", "two \"words\""),
                                       LOG_HEX("incarnation", 0xabcdu)};
    const char *text = format(false, &about, "hand-over done", fields, 5);
    cr_expect_str_eq(
        strstr(text, " info "),
        " info  router  hand-over done blocks=12 took_ms=0.500 one=word "
        "why=\"two \\\"words\\\"\" incarnation=000000000000abcd  peer=ipv4:x  request=abc  "
        "trace=ab010000000000000000000000000000\n");
}

Test(log_line, what_a_client_sent_stays_within_its_string)
{
    static const char HOSTILE[] = "x\",\"level\":\"error\n\x1b[2J\xff\xe2\x80\xae\xe2\x82";
    const struct log_about about = {.request_id = HOSTILE, .peer = HOSTILE};
    const struct log_field fields[] = {LOG_TEXT("why", HOSTILE)};
    json_t *root = read_json(&about, HOSTILE, fields, 1);
    cr_expect_str_eq(text_of(root, "level"), "info");
    cr_expect_str_eq(
        text_of(root, "why"),
        "x\",\"level\":\"error\n\x1b[2J\xef\xbf\xbd\xe2\x80\xae\xef\xbf\xbd\xef\xbf\xbd");
    cr_expect_null(strstr(line.text, "\xe2\x80\xae"), "no override as it is");
    json_decref(root);
    const char *text = format(false, &about, "x", fields, 1);
    cr_expect_null(strpbrk(text, "\x1b\xff"));
}

/* The worst of everything, and one byte more at a time around the bound. */
Test(log_line, a_line_is_a_whole_object_wherever_it_is_cut, .timeout = 120)
{
    static char most[LOG_LINE_BYTES];
    memset(most, '\x01', sizeof most - 1);
    const struct log_about about = {.request_id = most, .trace = &TRACE, .peer = most};
    struct log_field fields[64];
    for (size_t i = 0; i < 64; i++)
        fields[i] = (struct log_field)LOG_TEXT("text", most);
    size_t n_cut = 0;
    for (size_t n = 0; n <= 64; n++) {
        const char *text = format(true, &about, most, fields, n);
        json_t *root = json_loads(text, 0, NULL); /* the same key often: the last counts */
        cr_assert(root, "%zu fields", n);
        cr_assert_eq(strlen(text_of(root, "trace_id")), 32);
        n_cut += json_is_true(json_object_get(root, "cut"));
        json_decref(root);
    }
    cr_expect_gt(n_cut, 0, "the bound was reached");

    char filler[LOG_FIELD_TEXT_BYTES + 8];
    for (size_t n = 0; n < sizeof filler; n++) { /* every place of the last field */
        memset(filler, 'x', n);
        filler[n] = '\0';
        for (size_t i = 0; i < 64; i++)
            fields[i] = (struct log_field)LOG_TEXT("text", filler);
        json_t *root = json_loads(format(true, NULL, "event", fields, 64), 0, NULL);
        cr_assert(root, "fields of %zu bytes", n);
        cr_assert_eq(json_is_true(json_object_get(root, "cut")), line.is_cut);
        json_decref(root);
        (void)format(false, NULL, "event", fields, 64);
    }
}
