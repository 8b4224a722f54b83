/*
 * http_body - where the body of a request ends: after Content-Length bytes, or after the last chunk and its trailers.
 *
 *     "5\r\nhello\r\n0\r\n\r\n" -> "hello"     chunk extensions and trailers are passed over
 *
 * A refusal is the code of the answer, with a sentence for the client.
 *
 * No I/O. Thread: the owner's (plain data).
 */
#pragma once

#include "api/http/http_head.h"

enum http_chunk_place {
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_EXTENSION,
    HTTP_CHUNK_SIZE_LF,
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_CR,
    HTTP_CHUNK_LF,
    HTTP_CHUNK_TRAILERS,
};

struct http_body {
    uint64_t bytes_max; /* of the body */
    uint32_t
        extra_max; /* of all extensions and sizes beyond what chunks need, and of the trailers */
    enum http_framing framing;
    enum http_chunk_place place;
    bool is_whole;
    uint64_t n_bytes; /* of the body so far */
    uint64_t n_left;  /* of the length, or of the chunk */
    uint32_t n_digits;
    uint32_t n_extra;
    struct http_head_scan trailers;
};

/* Returns 0, or 413 where the head says that it is longer than bytes_max. */
unsigned http_body_init(struct http_body *body, const struct http_head *head, uint64_t bytes_max,
                        uint32_t extra_max, struct error *error);

/* Takes bytes to the end of the body at most; *n_used_out of them. data_out: of those, n_data of the body, which come one
 * behind the other; call again for the rest. Returns 0, or the code of the refusal. */
unsigned http_body_take(struct http_body *body, const uint8_t *bytes, size_t n, size_t *n_used_out,
                        const uint8_t **data_out, size_t *n_data_out, struct error *error);
