/* http_body: where a body ends, in whatever pieces it comes, and what is no body. */

#include "api/http/http_body.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Returns the code; the body's bytes in out, those used in *n_used_out. */
static unsigned read_body(const char *from, size_t n, size_t n_at_once, uint64_t bytes_max,
                          char *out, bool *is_whole_out, size_t *n_used_out)
{
    const struct http_head head = {.framing = HTTP_CHUNKED};
    struct error error = {""};
    struct http_body body;
    size_t at = 0, n_out = 0;
    unsigned code = http_body_init(&body, &head, bytes_max, 1000, &error);
    while (at < n && code == 0 && !body.is_whole) {
        size_t piece = n - at < n_at_once ? n - at : n_at_once, n_used, n_data;
        const uint8_t *data;
        code = http_body_take(&body, (const uint8_t *)from + at, piece, &n_used, &data, &n_data,
                              &error);
        cr_assert_gt(n_used, 0);
        memcpy(out + n_out, data, n_data);
        n_out += n_data;
        at += n_used;
    }
    out[n_out] = '\0';
    *is_whole_out = body.is_whole;
    *n_used_out = at;
    cr_expect(code == 0 || error.text[0]);
    return code;
}

static void expect_chunked(const char *from, unsigned code, const char *wanted)
{
    for (size_t n_at_once = 1; n_at_once < 8192; n_at_once *= 3) {
        char out[4096];
        bool is_whole;
        size_t n_used;
        unsigned got = read_body(from, strlen(from), n_at_once, 100, out, &is_whole, &n_used);
        cr_expect_eq(got, code, "%.60s: %u", from, got);
        cr_expect(code || is_whole == (wanted != NULL), "%.60s", from);
        cr_expect(!wanted || strcmp(out, wanted) == 0, "%.60s: %s", from, out);
        cr_expect(!wanted || strcmp(from + n_used, "next") == 0, "%.60s", from);
    }
}

Test(http_body, chunks_are_joined_and_what_follows_is_left)
{
    expect_chunked("5\r\nhello\r\n0\r\n\r\nnext", 0, "hello");
    expect_chunked("1\r\na\r\n02\r\nbc\r\nA;name=value\r\n0123456789\r\n0\r\n\r\nnext", 0,
                   "abc0123456789");
    expect_chunked("3 \t;x\r\nabc\r\n0;last\r\nTrailer: x\r\nOther: y\r\n\r\nnext", 0, "abc");
    expect_chunked("0\r\n\r\nnext", 0, "");
    expect_chunked("5\r\nhello\r\n0\r\n", 0, NULL);
    expect_chunked("5\r\nhel", 0, NULL);
}

Test(http_body, what_is_no_chunk_is_refused)
{
    expect_chunked("0x5\r\nhello\r\n0\r\n\r\n", 400, NULL);
    expect_chunked("-5\r\nhello\r\n0\r\n\r\n", 400, NULL);
    expect_chunked("\r\nhello", 400, NULL);
    expect_chunked(";x\r\nhello", 400, NULL);
    expect_chunked("5\nhello\r\n0\r\n\r\n", 400, NULL);
    expect_chunked("5\rXhello\r\n0\r\n\r\n", 400, NULL);
    expect_chunked("5\r\nhello0\r\n\r\n", 400, NULL);
    expect_chunked("1\r\naXY0\r\n\r\n", 400, NULL);
    expect_chunked("1\r\na\rY0\r\n\r\n", 400, NULL);
    expect_chunked("5\r\nhello\n0\r\n\r\n", 400, NULL);
    expect_chunked("5;a\nb\r\nhello\r\n", 400, NULL);
    expect_chunked("0\r\nTrailer: x\n\r\n", 400, NULL);
    expect_chunked("65\r\n", 413, NULL); /* 101 */
    expect_chunked("ffffffffffffffff\r\n", 413, NULL);
    expect_chunked("10000000000000000\r\n", 413, NULL);
    expect_chunked(
        "40\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n40\r\n", 413,
        NULL);
}

Test(http_body, extensions_and_trailers_are_bounded_over_all_chunks)
{
    static char from[40000];
    char out[4096];
    bool is_whole;
    size_t n_used;
    int n = 0;
    for (int i = 0; i < 90; i++)
        n += snprintf(from + n, sizeof from - (size_t)n, "1;0123456789abcdef\r\na\r\n");
    cr_expect_eq(read_body(from, (size_t)n, 100, 100, out, &is_whole, &n_used), 400);
    n = snprintf(from, sizeof from, "0\r\nX: %02000d\r\n\r\n", 0);
    cr_expect_eq(read_body(from, (size_t)n, 100, 100, out, &is_whole, &n_used), 431);
}

Test(http_body, a_length_is_counted_and_has_a_limit)
{
    struct http_head head = {.framing = HTTP_LENGTH, .length = 5};
    struct error error = {""};
    struct http_body body;
    size_t n_used, n_data;
    const uint8_t *data;
    cr_assert_eq(http_body_init(&body, &head, 5, 100, &error), 0);
    cr_assert_eq(http_body_take(&body, (const uint8_t *)"hel", 3, &n_used, &data, &n_data, &error),
                 0);
    cr_expect(n_used == 3 && n_data == 3 && !body.is_whole);
    cr_assert_eq(
        http_body_take(&body, (const uint8_t *)"lonext", 6, &n_used, &data, &n_data, &error), 0);
    cr_expect(n_used == 2 && n_data == 2 && body.is_whole);
    cr_expect_eq(http_body_init(&body, &head, 4, 100, &error), 413);
    cr_expect(strstr(error.text, "4 bytes"), "%s", error.text);
}
