#include "api/http/http_body.h"

#include <assert.h>

#define SIZE_DIGITS_MAX 15 /* no overflow */
#define CHUNK_FREE      8u /* bytes of a size line that are no extra ones */

#define REFUSE(code, ...) (error_write(error, __VA_ARGS__), (unsigned)(code))

static unsigned refuse_length(const struct http_body *body, struct error *error)
{
    return REFUSE(413, "the body of the request is longer than %llu bytes",
                  (unsigned long long)body->bytes_max);
}

unsigned http_body_init(struct http_body *body, const struct http_head *head, uint64_t bytes_max,
                        uint32_t extra_max, struct error *error)
{
    *body = (struct http_body){.bytes_max = bytes_max,
                               .extra_max = extra_max,
                               .framing = head->framing,
                               .is_whole = head->framing == HTTP_NO_BODY,
                               .n_left = head->framing == HTTP_LENGTH ? head->length : 0};
    body->trailers = (struct http_head_scan){.head_bytes_max = extra_max,
                                             .target_bytes_max = extra_max,
                                             .fields_max = extra_max,
                                             .n_lines = 1};
    return body->n_left > bytes_max ? refuse_length(body, error) : 0;
}

static int hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    uint8_t small = digit | 0x20;
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

static unsigned take_size_digit(struct http_body *body, uint8_t byte, struct error *error)
{
    int digit = hex_value(byte);
    if (digit >= 0) {
        body->n_left = body->n_left * 16 + (uint64_t)digit;
        if (++body->n_digits > SIZE_DIGITS_MAX || body->n_left > body->bytes_max - body->n_bytes)
            return refuse_length(body, error);
        return 0;
    }
    if (body->n_digits == 0 || (byte != '\r' && byte != ';' && byte != ' ' && byte != '\t'))
        return REFUSE(400, "the size of a chunk is no hexadecimal number");
    body->place = byte == '\r' ? HTTP_CHUNK_SIZE_LF : HTTP_CHUNK_EXTENSION;
    return 0;
}

static unsigned take_extension(struct http_body *body, uint8_t byte, struct error *error)
{
    if (byte == '\r')
        body->place = HTTP_CHUNK_SIZE_LF;
    else if (byte == '\n' || (byte < ' ' && byte != '\t') || byte == 0x7f)
        return REFUSE(400, "the extension of a chunk has the control character 0x%02x", byte);
    return 0;
}

/* A byte of the line with a chunk's size. */
static unsigned take_size(struct http_body *body, uint8_t byte, struct error *error)
{
    bool is_free = body->place == HTTP_CHUNK_SIZE && body->n_digits < CHUNK_FREE;
    body->n_extra += !is_free;
    if (body->n_extra > body->extra_max)
        return REFUSE(400, "the extensions of chunks are longer than %u bytes", body->extra_max);
    if (body->place == HTTP_CHUNK_SIZE)
        return take_size_digit(body, byte, error);
    if (body->place == HTTP_CHUNK_EXTENSION)
        return take_extension(body, byte, error);
    body->n_extra--;
    if (byte != '\n')
        return REFUSE(400, "the size of a chunk does not end in CR LF");
    body->place = body->n_left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILERS;
    body->n_digits = 0;
    return 0;
}

static unsigned take_between(struct http_body *body, uint8_t byte, struct error *error)
{
    bool is_cr = body->place == HTTP_CHUNK_CR;
    if (byte != (is_cr ? '\r' : '\n'))
        return REFUSE(400, "a chunk does not end in CR LF after its size");
    body->place = is_cr ? HTTP_CHUNK_LF : HTTP_CHUNK_SIZE;
    return 0;
}

static size_t take_data(struct http_body *body, size_t n)
{
    n = body->n_left < n ? (size_t)body->n_left : n;
    body->n_left -= n;
    body->n_bytes += n;
    assert(body->n_bytes <= body->bytes_max);
    return n;
}

unsigned http_body_take(struct http_body *body, const uint8_t *bytes, size_t n, size_t *n_used_out,
                        const uint8_t **data_out, size_t *n_data_out, struct error *error)
{
    size_t at = 0;
    unsigned code = 0;
    *n_data_out = 0;
    *data_out = bytes;
    if (body->framing == HTTP_LENGTH) {
        *n_used_out = *n_data_out = take_data(body, n);
        body->is_whole = body->n_left == 0;
        return 0;
    }
    while (at < n && code == 0 && !body->is_whole && *n_data_out == 0) {
        size_t n_trailers;
        switch (body->place) {
        case HTTP_CHUNK_DATA:
            *data_out = bytes + at;
            *n_data_out = take_data(body, n - at);
            at += *n_data_out;
            if (body->n_left == 0)
                body->place = HTTP_CHUNK_CR;
            break;
        case HTTP_CHUNK_CR:
        case HTTP_CHUNK_LF:
            code = take_between(body, bytes[at++], error);
            break;
        case HTTP_CHUNK_TRAILERS:
            code = http_head_scan(&body->trailers, bytes + at, n - at, &n_trailers, &body->is_whole,
                                  error);
            at += n_trailers;
            break;
        default:
            code = take_size(body, bytes[at++], error);
            break;
        }
    }
    *n_used_out = at;
    return code;
}
