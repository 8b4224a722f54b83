/*
 * http_answer_head - status line and header fields of an answer, and whole answers that only say what is wrong.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/http/http_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_ERROR_BYTES_MAX 1024

struct evbuffer;

struct http_answer_head {
    unsigned code; /* 200 .. 599 */
    /* Those of length and connection are added. Control characters in values become '?'. Names are literals. */
    const struct http_field *fields;
    size_t n_fields;
};

enum http_answer_body { HTTP_ANSWER_WHOLE, HTTP_ANSWER_CHUNKED, HTTP_ANSWER_UNTIL_END };

struct http_answer_framing {
    enum http_answer_body body;
    uint64_t length; /* of a whole one */
    bool closes;
    const struct http_field *fields; /* more of them, those of the exchange */
    size_t n_fields;
};

const char *http_reason_phrase(unsigned code); /* "Not Found" */
/* 204 and 304 have no body. */
bool http_code_has_body(unsigned code);

/* Appends it. False: no memory; part of it may be there. */
bool http_answer_head_write(struct evbuffer *out, const struct http_answer_head *head,
                            const struct http_answer_framing *framing);

/* How a port itself says what is wrong. Any thread. */
struct http_error_form {
    void *arg;
    const char *type; /* "application/json" */
    /* Returns the length; never more than HTTP_ERROR_BYTES_MAX. */
    size_t (*write)(void *arg, unsigned code, const char *sentence,
                    char body_out[HTTP_ERROR_BYTES_MAX]);
    const char *repeats; /* the field of a request that its refusal has, too; NULL: none */
};

/* Longer values are not repeated. */
#define HTTP_REPEATED_BYTES_MAX 128u

struct http_error_answer {
    unsigned code;
    unsigned retry_after_s; /* 0: does not say */
    const char *allow;      /* NULL: does not say */
    const char *sentence;
    bool closes;
    bool lacks_body;                 /* an answer to HEAD */
    const struct http_field *fields; /* of the exchange */
    size_t n_fields;
};

/* Appends it, in that form; NULL: plain text. False: as above. */
bool http_error_answer_write(struct evbuffer *out, const struct http_error_answer *answer,
                             const struct http_error_form *form);
