/*
 * http_reader_fuzz - any bytes are refused, or are requests with a path, fields and a body within their bounds; and the same
 * bytes are the same requests in whatever pieces they come.
 */
#include "api/http/http_body.h"
#include "api/http/http_head.h"
#include "base/crc32c.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX  2048
#define BODY_MAX  4096
#define EXTRA_MAX 512

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* What was read: of all requests, and of the code that ended them. */
struct reading {
    uint32_t n_requests;
    unsigned code;
    uint32_t digest;
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void note(struct reading *reading, const void *bytes, size_t n)
{
    reading->digest = crc32c(reading->digest, bytes, n);
}

static void look_at_head(const struct http_head *head, struct reading *reading)
{
    char value[16];
    size_t n = strlen(head->path);
    check((head->path[0] == '/' || strcmp(head->path, "*") == 0) && n < HEAD_MAX);
    check(utf8_first_invalid(head->path, n) == n);
    for (const char *at = head->path; *at; at++)
        check((unsigned char)*at >= ' ' && *at != 0x7f);
    note(reading, head->path, n);
    note(reading, head->query, strlen(head->query));
    for (uint32_t i = 0; i < head->n_fields; i++) {
        check(head->fields[i].name[0] && !strpbrk(head->fields[i].name, " \t\r\n:"));
        check(!strpbrk(head->fields[i].value, "\r\n"));
        check(http_head_field(head, head->fields[i].name) != NULL);
        note(reading, head->fields[i].value, strlen(head->fields[i].value));
    }
    check(head->framing == HTTP_NO_BODY || !head->lacks_length);
    check(http_head_query(head, "q", value, sizeof value) <= sizeof value);
    note(reading, &head->framing, sizeof head->framing);
}

/* Returns how many bytes it took; 0: no more requests. */
static size_t read_request(const uint8_t *bytes, size_t n, size_t n_at_once,
                           struct reading *reading)
{
    struct http_head_scan scan = {
        .head_bytes_max = HEAD_MAX, .target_bytes_max = 512, .fields_max = 8};
    struct error error = {""};
    struct http_head head = {.n_fields = 0};
    struct http_body body;
    bool is_whole = false;
    size_t at = 0, n_used;
    while (at < n && !is_whole && reading->code == 0) {
        size_t piece = n - at < n_at_once ? n - at : n_at_once;
        reading->code = http_head_scan(&scan, bytes + at, piece, &n_used, &is_whole, &error);
        at += n_used;
    }
    check(at <= HEAD_MAX + 1 && (reading->code == 0 || error.text[0]));
    if (!is_whole || reading->code)
        return 0;
    char *text = malloc(at + 1);
    check(text != NULL);
    memcpy(text, bytes, at);
    text[at] = '\0';
    reading->code = http_head_parse(text, at, &head, &error);
    if (reading->code == 0) {
        look_at_head(&head, reading);
        reading->code = http_body_init(&body, &head, BODY_MAX, EXTRA_MAX, &error);
    }
    while (reading->code == 0 && !body.is_whole && at < n) {
        size_t piece = n - at < n_at_once ? n - at : n_at_once, n_data;
        const uint8_t *data;
        reading->code = http_body_take(&body, bytes + at, piece, &n_used, &data, &n_data, &error);
        check(n_used > 0 && n_used <= piece && n_data <= n_used && body.n_bytes <= BODY_MAX);
        check(n_data == 0 || (data >= bytes + at && data + n_data <= bytes + at + n_used));
        note(reading, data, n_data);
        at += n_used;
    }
    check(reading->code == 0 || (reading->code >= 400 && reading->code <= 505 && error.text[0]));
    bool is_done = reading->code == 0 && body.is_whole;
    http_head_finish(&head);
    free(text);
    reading->n_requests += is_done;
    return is_done ? at : 0;
}

static struct reading read_all(const uint8_t *bytes, size_t n, size_t n_at_once)
{
    struct reading reading = {.n_requests = 0};
    size_t at = 0, n_taken;
    while (at < n && (n_taken = read_request(bytes + at, n - at, n_at_once, &reading)) > 0)
        at += n_taken;
    return reading;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static const size_t PIECES[] = {1, 2, 7, 100};
    struct reading whole = read_all(bytes, n_bytes, n_bytes + 1);
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) {
        struct reading pieces = read_all(bytes, n_bytes, PIECES[i]);
        check(pieces.n_requests == whole.n_requests && pieces.code == whole.code &&
              pieces.digest == whole.digest);
    }
    return 0;
}
