/* http_reply: the body is the same however the bytes are cut; what does not tell its end, or lies, is refused. */
#include "discovery/k8s/http_reply.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct http_reply reply;
static struct error error;
static char body[4096];
static size_t body_bytes;

static enum status add(void *arg, const char *bytes, size_t n, struct error *why)
{
    (void)arg;
    (void)why;
    cr_assert_lt(body_bytes + n, sizeof body);
    memcpy(body + body_bytes, bytes, n);
    body_bytes += n;
    body[body_bytes] = '\0';
    return STATUS_OK;
}

/* In pieces of so many bytes, each in memory of its own. */
static enum status push(const char *text, size_t bytes, size_t piece)
{
    enum status status = STATUS_OK;
    http_reply_init(&reply);
    body_bytes = 0;
    body[0] = '\0';
    memset(&error, 0, sizeof error);
    for (size_t at = 0; at < bytes && status == STATUS_OK; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        char *copy = malloc(n);
        memcpy(copy, text + at, n);
        status = http_reply_push(&reply, copy, n, add, NULL, &error);
        free(copy);
    }
    return status;
}

static void expect(const char *text, unsigned code, const char *wanted)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        cr_assert_eq(push(text, strlen(text), piece), STATUS_OK, "%zu: %s", piece, error.text);
        cr_assert_eq(reply.state, HTTP_REPLY_DONE, "%zu: %d", piece, reply.state);
        cr_assert_eq(reply.code, code);
        cr_assert_str_eq(body, wanted);
    }
}

Test(http_reply, has_a_body_by_length_or_in_chunks)
{
    expect("HTTP/1.1 200 OK\r\ncontent-length: 5 \r\n\r\nhello", 200, "hello");
    expect("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "");
    expect("HTTP/1.1 204 No Content\r\nAudit-Id: x\r\n\r\n", 204, "");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
           "5\r\nhello\r\nA;x=\"y\"\r\n, world\r\n.\r\n0\r\n\r\n",
           200, "hello, world\r\n.");
    expect("HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: Chunked\r\n\r\n1 \r\nx\r\n00\r\n"
           "Trailer: 1\r\nMore: 2\r\n\r\n",
           403, "x");
}

Test(http_reply, what_only_announces_comes_before_the_answer)
{
    expect("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
           "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 1\r\n\r\n!",
           429, "!");
    cr_assert_eq(reply.retry_after_s, 7);
}

Test(http_reply, that_is_none_or_has_no_end_is_refused)
{
    static const struct {
        const char *text;
        enum status status;
        const char *sentence;
    } CASES[] = {
        {"HTTP/1.0 200 OK\r\n\r\n", STATUS_CORRUPT, "first line"},
        {"HTTP/2 200\r\n\r\n", STATUS_CORRUPT, "first line"},
        {"\r\n\r\n", STATUS_CORRUPT, "first line"},
        {"HTTP/1.1 2000 OK\r\n\r\n", STATUS_CORRUPT, "first line"},
        {"HTTP/1.1 099 OK\r\n\r\n", STATUS_CORRUPT, "first line"},
        {"HTTP/1.1 200 OK\r\n\r\n", STATUS_UNSUPPORTED, "has no length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", STATUS_CORRUPT,
         "comes twice"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", STATUS_CORRUPT, "no number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", STATUS_CORRUPT,
         "no number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         STATUS_CORRUPT, "a length and chunks"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", STATUS_UNSUPPORTED,
         "Transfer-Encoding"},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", STATUS_UNSUPPORTED,
         "Content-Encoding"},
        {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", STATUS_CORRUPT, "a line of its head"},
        {"HTTP/1.1 200 OK\r\nA b\r\n\r\n", STATUS_CORRUPT, "a line of its head"},
        {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", STATUS_CORRUPT, "a line of its head"},
        {"HTTP/1.1 200 OK\nA: b\r\n\r\n", STATUS_CORRUPT, "CR LF"},
        {"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", STATUS_CORRUPT, "CR LF"},
        {"HTTP/1.1 101 Switching\r\n\r\n", STATUS_CORRUPT, "switches protocols"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", STATUS_CORRUPT, "follow its end"},
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        {CHUNKED "x\r\n", STATUS_CORRUPT, "no size"},
        {CHUNKED "\r\n", STATUS_CORRUPT, "no size"},
        {CHUNKED "-1\r\n", STATUS_CORRUPT, "no size"},
        {CHUNKED "fffffffff\r\n", STATUS_CORRUPT, "too long"},
        {CHUNKED "1\n", STATUS_CORRUPT, "CR LF"},
        {CHUNKED "1\r\nab\r\n", STATUS_CORRUPT, "longer than it says"},
        {CHUNKED "0\r\n\r\nx", STATUS_CORRUPT, "follow its end"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (size_t piece = 1; piece < 100; piece += 7) {
            enum status status = push(CASES[i].text, strlen(CASES[i].text), piece);
            cr_expect_eq(status, CASES[i].status, "%zu: %s: %s", i, CASES[i].text, error.text);
            cr_expect(strstr(error.text, CASES[i].sentence), "%zu: %s", i, error.text);
        }
    cr_assert_eq(push("HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", 27, 27), STATUS_CORRUPT);
}

Test(http_reply, heads_and_lines_have_bounds)
{
    static char text[64 * 1024];
    memset(text, 'a', sizeof text);
    memcpy(text, "HTTP/1.1 200 OK\r\nA: ", 20);
    cr_assert_eq(push(text, sizeof text, sizeof text), STATUS_CORRUPT);
    cr_assert(strstr(error.text, "head is too long"), "%s", error.text);

    int n = snprintf(text, sizeof text, CHUNKED "1;");
    memset(text + n, 'a', 1000);
    cr_assert_eq(push(text, (size_t)n + 1000, 100), STATUS_CORRUPT);
    cr_assert(strstr(error.text, "line between its chunks is too long"), "%s", error.text);

    n = snprintf(text, sizeof text, CHUNKED "0\r\n");
    for (int i = 0; i < 4000; i++, n += 6)
        memcpy(text + n, "a: b\r\n", 6);
    cr_assert_eq(push(text, (size_t)n, 100), STATUS_CORRUPT);

    n = 0;
    for (int i = 0; i < 9; i++)
        n += snprintf(text + n, 100, "HTTP/1.1 100 Continue\r\n\r\n");
    cr_assert_eq(push(text, (size_t)n, 100), STATUS_CORRUPT);
    cr_assert(strstr(error.text, "only ever announced"), "%s", error.text);
}

static enum status refuse(void *arg, const char *bytes, size_t n, struct error *why)
{
    (void)arg, (void)bytes, (void)n;
    return error_set(why, STATUS_QUEUE_FULL, "full");
}

Test(http_reply, a_body_that_nobody_takes_ends_it)
{
    static const char TEXT[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    http_reply_init(&reply);
    cr_assert_eq(http_reply_push(&reply, TEXT, sizeof TEXT - 1, refuse, NULL, &error),
                 STATUS_QUEUE_FULL);
    cr_assert_str_eq(error.text, "full");
}
