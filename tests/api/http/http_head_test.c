/* http_head: what is a request, byte by byte, and which refusal what is none gets. */

#include "api/http/http_head.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[40000];

/* In pieces of n_at_once; the code. */
static unsigned read_head(const char *from, size_t n, size_t n_at_once, struct http_head *head_out,
                          struct error *error)
{
    struct http_head_scan scan = {
        .head_bytes_max = 16384, .target_bytes_max = 8192, .fields_max = 100};
    size_t at = 0;
    bool is_whole = false;
    cr_assert_lt(n, sizeof text);
    memcpy(text, from, n);
    text[n] = '\0';
    while (at < n && !is_whole) {
        size_t piece = n - at < n_at_once ? n - at : n_at_once, n_used;
        unsigned code = http_head_scan(&scan, (const uint8_t *)from + at, piece, &n_used, &is_whole,
                                       error);
        at += n_used;
        if (code)
            return code;
    }
    if (!is_whole)
        return 1;
    text[at] = '\0';
    return http_head_parse(text, at, head_out, error);
}

static void expect_code(const char *from, size_t n, unsigned code)
{
    for (size_t n_at_once = 1; n_at_once < 40000; n_at_once *= 7) {
        struct http_head head = {.n_fields = 0};
        struct error error = {""};
        unsigned got = read_head(from, n, n_at_once, &head, &error);
        cr_expect_eq(got, code, "%u for %u: %.100s (%s)", got, code, from, error.text);
        cr_expect(code < 2 || error.text[0], "%.100s", from);
        http_head_finish(&head);
    }
}

#define H "\r\nHost: x\r\n"

static const struct {
    const char *text;
    unsigned code;
} CASES[] = {
    {"GET / HTTP/1.1" H "\r\n", 0},
    {"\r\n\r\nGET / HTTP/1.1" H "\r\n", 0},
    {"GET / HTTP/1.9" H "\r\n", 0},
    {"GET / HTTP/1.0\r\n\r\n", 0},
    {"GET http://host/path?q HTTP/1.1" H "\r\n", 0},
    {"OPTIONS * HTTP/1.1" H "\r\n", 0},
    {"GET / HTTP/1.1" H, 1},                     /* not whole */
    {"GET / HTTP/1.1\r\n\r\n", 400},             /* no Host */
    {"GET / HTTP/1.1" H "Host: y\r\n\r\n", 400}, /* two */
    {"GET / HTTP/1.1\nHost: x\n\n", 400},        /* bare LF */
    {"GET / HTTP/1.1" H "X: y\n\r\n", 400},
    {"GET / HTTP/1.1" H "X: y\rz\r\n\r\n", 400}, /* bare CR */
    {"GET / HTTP/1.1" H " folded: y\r\n\r\n", 400},
    {"GET / HTTP/1.1" H "X: y\r\n z\r\n\r\n", 400},
    {"GET / HTTP/1.1" H "X : y\r\n\r\n", 400},
    {"GET / HTTP/1.1" H "X\r\n\r\n", 400},
    {"GET / HTTP/1.1" H ": y\r\n\r\n", 400},
    {"GET / HTTP/1.1" H "X\xff: y\r\n\r\n", 400},
    {"GET / HTTP/1.1" H "X: \x01\r\n\r\n", 400},
    {"GET  / HTTP/1.1" H "\r\n", 400},
    {"GET /\tHTTP/1.1" H "\r\n", 400},
    {"GET / HTTP/1.1 " H "\r\n", 400},
    {"GET /" H "\r\n", 400},
    {"GET / http/1.1" H "\r\n", 400},
    {"GET / HTTP/11" H "\r\n", 400},
    {"GET / HTTP/2.0" H "\r\n", 505},
    {"PRI * HTTP/2.0\r\n\r\n", 505},
    {"GET path HTTP/1.1" H "\r\n", 400},
    {"GET * HTTP/1.1" H "\r\n", 400},
    {"GET ftp://host/ HTTP/1.1" H "\r\n", 400},
    {"GET /a#b HTTP/1.1" H "\r\n", 400},
    {"GET /%zz HTTP/1.1" H "\r\n", 400},
    {"GET /%4 HTTP/1.1" H "\r\n", 400},
    {"GET /%00 HTTP/1.1" H "\r\n", 400},
    {"GET /%0a HTTP/1.1" H "\r\n", 400},
    {"GET /%ff HTTP/1.1" H "\r\n", 400}, /* no UTF-8 */
    {"get / HTTP/1.1" H "\r\n", 501},
    {"CONNECT host:1 HTTP/1.1" H "\r\n", 501},
    {"G(T / HTTP/1.1" H "\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: 5\r\n\r\n", 0},
    {"POST / HTTP/1.1" H "Content-Length: +5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: -5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: 0x5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: 5, 5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: \r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: 0\r\nContent-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Content-Length: 9999999999999999999999\r\n\r\n", 413},
    {"POST / HTTP/1.1" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {"POST / HTTP/1.1" H "Transfer-Encoding: xchunked\r\n\r\n", 501},
    {"POST / HTTP/1.1" H "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
    {"POST / HTTP/1.1" H "Transfer-Encoding: Chunked\r\n\r\n", 0},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1" H "Expect: 200-maybe\r\n\r\n", 417},
};
Test(http_head, a_request_that_breaks_a_rule_is_refused_with_the_code_of_that_rule)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_code(CASES[i].text, strlen(CASES[i].text), CASES[i].code);
    expect_code("GET /\0 HTTP/1.1" H "\r\n", 26, 400);
}

Test(http_head, is_bounded_in_its_line_its_bytes_and_its_fields)
{
    static char from[40000];
    int n = snprintf(from, sizeof from, "GET /%08200d HTTP/1.1" H "\r\n", 0);
    expect_code(from, (size_t)n, 0);
    n = snprintf(from, sizeof from, "GET /%09000d HTTP/1.1" H "\r\n", 0);
    expect_code(from, (size_t)n, 414);
    n = snprintf(from, sizeof from, "GET / HTTP/1.1" H "X: %016300d\r\n\r\n", 0);
    expect_code(from, (size_t)n, 0);
    n = snprintf(from, sizeof from, "GET / HTTP/1.1" H "X: %017000d\r\n\r\n", 0);
    expect_code(from, (size_t)n, 431);
    for (unsigned n_fields = 99; n_fields <= 100; n_fields++) {
        n = snprintf(from, sizeof from, "GET / HTTP/1.1" H);
        for (unsigned i = 0; i < n_fields; i++)
            n += snprintf(from + n, sizeof from - (size_t)n, "X: y\r\n");
        n += snprintf(from + n, sizeof from - (size_t)n, "\r\n");
        expect_code(from, (size_t)n, n_fields == 99 ? 0 : 431);
    }
}

Test(http_head, says_path_query_and_fields_decoded)
{
    static const char FROM[] =
        "POST https://host:80/v1/models/org%2fname%20%C3%A4?a=1&q=b%26+c&%71=no&e&bad=%z "
        "HTTP/1.1\r\n"
        "HOST: x\r\nX-Word: \t two words \r\nx-word: second\r\nConnection: Keep-Alive, CLOSE\r\n"
        "Content-Length: 012\r\nExpect: 100-Continue\r\nEmpty:\r\n\r\n";
    struct http_head head = {.n_fields = 0};
    struct error error = {""};
    char value[8];
    cr_assert_eq(read_head(FROM, sizeof FROM - 1, 3, &head, &error), 0, "%s", error.text);
    cr_expect_eq(head.verb, HTTP_VERB_POST);
    cr_expect_str_eq(head.path, "/v1/models/org/name \xc3\xa4");
    cr_expect_str_eq(http_head_field(&head, "x-WORD"), "two words");
    cr_expect_str_eq(http_head_field(&head, "empty"), "");
    cr_expect_null(http_head_field(&head, "x-wor"));
    cr_expect_eq(head.framing, HTTP_LENGTH);
    cr_expect_eq(head.length, 12);
    cr_expect(head.closes && head.expects_continue && !head.lacks_length);
    cr_expect_eq(http_head_query(&head, "q", value, sizeof value), 5);
    cr_expect_str_eq(value, "b& c");
    cr_expect_eq(http_head_query(&head, "e", value, sizeof value), 1);
    cr_expect_eq(http_head_query(&head, "bad", value, sizeof value), 1);
    cr_expect_eq(http_head_query(&head, "none", value, sizeof value), 0);
    cr_expect_eq(http_head_query(&head, "q", value, 3), 1, "too long");
    http_head_finish(&head);
}

Test(http_head, a_target_with_a_host_alone_has_the_path_of_the_root)
{
    static const char FROM[] = "GET http://host?q=1 HTTP/1.1\r\nHost: host\r\n\r\n";
    struct http_head head = {.n_fields = 0};
    struct error error = {""};
    cr_assert_eq(read_head(FROM, sizeof FROM - 1, 100, &head, &error), 0, "%s", error.text);
    cr_expect_str_eq(head.path, "/");
    cr_expect_str_eq(head.query, "q=1");
    cr_expect_not(head.closes);
    http_head_finish(&head);
}
