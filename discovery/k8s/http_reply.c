#include "discovery/k8s/http_reply.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#define INTERIM_MAX       8u
#define RETRY_AFTER_S_MAX 3600u
#define CHUNK_LINE_MAX    256u /* bytes, extensions included */
#define CHUNK_DIGITS_MAX  8u
#define LENGTH_DIGITS_MAX 18u

/* What a head says that matters here. */
struct head {
    unsigned code;
    uint64_t length;
    bool has_length, is_chunked;
    uint32_t retry_after_s;
};

void http_reply_init(struct http_reply *reply)
{
    reply->state = HTTP_REPLY_HEAD;
    reply->code = 0;
    reply->retry_after_s = 0;
    reply->left = 0;
    reply->n_interim = reply->n_trailer = reply->n = 0;
}

/* ---- the head ---- */

static enum status corrupt(struct error *error, const char *what)
{
    return error_set(error, STATUS_CORRUPT, "the answer is not HTTP/1.1: %s", what);
}

static bool parse_decimal(const char *text, size_t bytes, uint64_t *value_out)
{
    uint64_t value = 0;
    if (bytes == 0 || bytes > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    *value_out = value;
    return true;
}

/* "HTTP/1.1 200 OK" */
static enum status read_status_line(const char *line, size_t bytes, struct head *head,
                                    struct error *error)
{
    static const char VERSION[] = "HTTP/1.1 ";
    size_t version_bytes = sizeof VERSION - 1;
    uint64_t code;
    if (bytes < version_bytes + 3 || memcmp(line, VERSION, version_bytes) != 0 ||
        !parse_decimal(line + version_bytes, 3, &code) || code < 100 || code > 599 ||
        (bytes > version_bytes + 3 && line[version_bytes + 3] != ' '))
        return corrupt(error, "its first line is none");
    head->code = (unsigned)code;
    return STATUS_OK;
}

static bool is_text(const char *text, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && strncasecmp(text, wanted, bytes) == 0;
}

static enum status read_length(const char *value, size_t bytes, struct head *head,
                               struct error *error)
{
    if (head->has_length)
        return corrupt(error, "Content-Length comes twice");
    if (!parse_decimal(value, bytes, &head->length))
        return corrupt(error, "Content-Length is no number");
    head->has_length = true;
    return STATUS_OK;
}

static enum status read_field(const char *name, size_t name_bytes, const char *value, size_t bytes,
                              struct head *head, struct error *error)
{
    uint64_t seconds;
    if (is_text(name, name_bytes, "Content-Length"))
        return read_length(value, bytes, head, error);
    if (is_text(name, name_bytes, "Transfer-Encoding")) {
        if (head->is_chunked || !is_text(value, bytes, "chunked"))
            return error_set(error, STATUS_UNSUPPORTED,
                             "the answer has a Transfer-Encoding other than chunked");
        head->is_chunked = true;
    } else if (is_text(name, name_bytes, "Content-Encoding")) {
        if (!is_text(value, bytes, "identity"))
            return error_set(error, STATUS_UNSUPPORTED,
                             "the answer has a Content-Encoding, which was not asked for");
    } else if (is_text(name, name_bytes, "Retry-After")) {
        if (parse_decimal(value, bytes, &seconds)) /* else a date, which no API server sends */
            head->retry_after_s = seconds < RETRY_AFTER_S_MAX ? (uint32_t)seconds
                                                              : RETRY_AFTER_S_MAX;
    }
    return STATUS_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum status read_line(const char *line, size_t bytes, struct head *head, struct error *error)
{
    const char *colon = memchr(line, ':', bytes);
    if (!colon || colon == line || is_blank(line[0]) || is_blank(colon[-1]) ||
        memchr(line, '\0', bytes))
        return corrupt(error, "a line of its head is none");
    const char *value = colon + 1;
    const char *end = line + bytes;
    while (value < end && is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    return read_field(line, (size_t)(colon - line), value, (size_t)(end - value), head, error);
}

/* reply->line ends with an empty line. */
static enum status read_head(const struct http_reply *reply, struct head *head, struct error *error)
{
    assert(reply->n >= 4 && "it ends with a line end and an empty line");
    const char *at = reply->line;
    const char *end = reply->line + reply->n - 2; /* before the empty line */
    for (bool is_first = true; at < end; is_first = false) {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        if (!line_end || line_end[1] != '\n' || memchr(at, '\n', (size_t)(line_end - at)))
            return corrupt(error, "a line of its head does not end with CR LF");
        size_t bytes = (size_t)(line_end - at);
        TRY(is_first ? read_status_line(at, bytes, head, error)
                     : read_line(at, bytes, head, error));
        at = line_end + 2;
    }
    return STATUS_OK;
}

static enum status enter_body(struct http_reply *reply, const struct head *head,
                              struct error *error)
{
    assert(head->code >= 200 && reply->left == 0 && reply->code == 0);
    reply->code = head->code;
    reply->retry_after_s = head->retry_after_s;
    if (head->has_length && head->is_chunked)
        return corrupt(error, "it has a length and chunks");
    if (head->code == 204 || head->code == 304) {
        reply->state = HTTP_REPLY_DONE;
    } else if (head->is_chunked) {
        reply->state = HTTP_REPLY_CHUNK_SIZE;
    } else if (head->has_length) {
        reply->left = head->length;
        reply->state = head->length ? HTTP_REPLY_BODY : HTTP_REPLY_DONE;
    } else {
        return error_set(error, STATUS_UNSUPPORTED,
                         "the answer (%u) has no length and is not chunked", head->code);
    }
    return STATUS_OK;
}

static enum status end_head(struct http_reply *reply, struct error *error)
{
    struct head head = {0};
    TRY(read_head(reply, &head, error));
    reply->n = 0;
    if (head.code >= 200)
        return enter_body(reply, &head, error);
    if (head.code == 101 || ++reply->n_interim > INTERIM_MAX)
        return corrupt(error, "it switches protocols, or is only ever announced");
    return STATUS_OK;
}

/* ---- between chunks ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* reply->line is "1a2b" or "1a2b;extension", and its line end. */
static enum status end_chunk_size(struct http_reply *reply, struct error *error)
{
    uint64_t size = 0;
    uint32_t digits = 0;
    for (; digits < reply->n && hex_digit(reply->line[digits]) >= 0; digits++) {
        if (digits == CHUNK_DIGITS_MAX)
            return corrupt(error, "a chunk is too long");
        size = 16 * size + (uint64_t)hex_digit(reply->line[digits]);
    }
    assert(digits < reply->n && "the line has its end, which is no digit");
    char next = reply->line[digits];
    if (digits == 0 || (next != ';' && next != '\r' && !is_blank(next)))
        return corrupt(error, "a chunk has no size");
    reply->n = 0;
    reply->left = size;
    reply->state = size ? HTTP_REPLY_CHUNK : HTTP_REPLY_TRAILER;
    return STATUS_OK;
}

static enum status end_trailer(struct http_reply *reply)
{
    if (reply->n == 2)
        reply->state = HTTP_REPLY_DONE;
    reply->n = 0;
    return STATUS_OK;
}

/* ---- bytes ---- */

static bool ends_with(const struct http_reply *reply, const char *end)
{
    size_t bytes = strlen(end);
    return reply->n >= bytes && memcmp(reply->line + reply->n - bytes, end, bytes) == 0;
}

static enum status add_byte(struct http_reply *reply, char byte, struct error *error)
{
    bool is_head = reply->state == HTTP_REPLY_HEAD;
    reply->n_trailer += reply->state == HTTP_REPLY_TRAILER;
    if (reply->n == (is_head ? HTTP_REPLY_HEAD_BYTES_MAX : CHUNK_LINE_MAX) ||
        reply->n_trailer > HTTP_REPLY_HEAD_BYTES_MAX)
        return corrupt(error,
                       is_head ? "its head is too long" : "a line between its chunks is too long");
    assert(reply->n < sizeof reply->line);
    reply->line[reply->n++] = byte;
    if (byte != '\n')
        return STATUS_OK;
    if (is_head)
        return ends_with(reply, "\r\n\r\n") ? end_head(reply, error) : STATUS_OK;
    if (!ends_with(reply, "\r\n"))
        return corrupt(error, "a line between its chunks does not end with CR LF");
    if (reply->state == HTTP_REPLY_CHUNK_SIZE)
        return end_chunk_size(reply, error);
    if (reply->state == HTTP_REPLY_TRAILER)
        return end_trailer(reply);
    if (reply->n != 2)
        return corrupt(error, "a chunk is longer than it says");
    reply->n = 0;
    reply->state = HTTP_REPLY_CHUNK_SIZE;
    return STATUS_OK;
}

enum status http_reply_push(struct http_reply *reply, const char *bytes, size_t n,
                            http_reply_body body, void *arg, struct error *error)
{
    size_t at = 0;
    while (at < n) {
        if (reply->state == HTTP_REPLY_DONE)
            return corrupt(error, "bytes follow its end");
        if (reply->state != HTTP_REPLY_BODY && reply->state != HTTP_REPLY_CHUNK) {
            TRY(add_byte(reply, bytes[at++], error));
            continue;
        }
        assert(reply->left > 0 && "an empty body is done, an empty chunk the last");
        size_t span = n - at < reply->left ? n - at : (size_t)reply->left;
        TRY(body(arg, bytes + at, span, error));
        at += span;
        reply->left -= span;
        if (reply->left == 0)
            reply->state = reply->state == HTTP_REPLY_BODY ? HTTP_REPLY_DONE : HTTP_REPLY_CHUNK_END;
    }
    return STATUS_OK;
}
