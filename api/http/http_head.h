/*
 * http_head - the head of a request of HTTP/1: its request line and its header fields.
 *
 *     bytes --http_head_scan--> where the head ends --http_head_parse--> method, path, query, fields, framing
 *
 * Strict, as what one server takes for a body another one takes for a request: lines end in CRLF, a field has no blank
 * before its colon and one line, and there is one Content-Length or one Transfer-Encoding, never both (RFC 9112, 6.3).
 * Empty lines before a request line are passed over.
 *
 * A refusal is the code of the answer, with a sentence for the client.
 *
 * No I/O. Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits, for sets of them. */
enum http_verb {
    HTTP_VERB_GET = 1,
    HTTP_VERB_HEAD = 2,
    HTTP_VERB_POST = 4,
    HTTP_VERB_OPTIONS = 8,
    HTTP_VERB_OTHER = 16 /* known, and served nowhere: PUT, DELETE, PATCH */
};

/* Starts as zeros but for the limits. */
struct http_head_scan {
    uint32_t head_bytes_max;
    uint32_t target_bytes_max;
    uint32_t fields_max;
    uint32_t n_bytes; /* of the head so far */
    uint32_t n_line;  /* of this line, without its CR */
    uint32_t n_lines; /* that are not empty */
    bool has_cr;
};

/* Takes bytes to the end of the head at most; *n_used_out of them. Returns 0, or the code of the refusal. */
unsigned http_head_scan(struct http_head_scan *scan, const uint8_t *bytes, size_t n,
                        size_t *n_used_out, bool *is_whole_out, struct error *error);

struct http_field {
    const char *name;
    const char *value; /* without blanks around it */
};

enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED };

/* Texts are NUL-terminated and lie in what was parsed. */
struct http_head {
    enum http_verb verb;
    bool is_http_1_0;
    const char *path;  /* percent-decoded, valid UTF-8 without controls; "*" of OPTIONS */
    const char *query; /* as sent; "" without one */
    struct http_field *fields;
    uint32_t n_fields;
    enum http_framing framing;
    bool lacks_length; /* says nothing of a body */
    uint64_t length;   /* of HTTP_LENGTH */
    bool closes;       /* the client sends no request after this one */
    bool expects_continue;
};

/* text: [n + 1], as scanned; it is changed, and must outlive the head. Returns 0, or the code of the refusal. */
unsigned http_head_parse(char *text, size_t n, struct http_head *head_out, struct error *error);
void http_head_finish(struct http_head *head); /* one that was not parsed, but zeros, is fine */

/* The value of the first field of that name, in whatever case; NULL: there is none. */
const char *http_head_field(const struct http_head *head, const char *name);

/* Copies the decoded value of the query's first part `key=value`; + is a blank. 0: no such key. Else its length + 1;
 * with more than n_max, or a value that cannot be decoded, value_out is "". */
size_t http_head_query(const struct http_head *head, const char *key, char *value_out,
                       size_t n_max);
