/*
 * http_reply - reads one HTTP/1.1 answer as it arrives, in pieces of any size.
 *
 *     head -> (1xx: head again) -> body by Content-Length, or in chunks -> done
 *
 * An answer must mark its end: one that ends with the connection is refused, because it might be
 * incomplete. So are other versions than 1.1, two lengths, a length and chunks, encodings of the
 * content, folded lines, and heads beyond the bounds.
 *
 * Bounds: HTTP_REPLY_HEAD_BYTES_MAX for a head; the same for trailers, which are ignored; eight 1xx
 * answers; a chunk of 2^32 - 1 bytes, which is never stored. The object uses no other memory.
 *
 * Thread: one at a time (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_REPLY_HEAD_BYTES_MAX 16384u

enum http_reply_state {
    HTTP_REPLY_HEAD,
    HTTP_REPLY_BODY,       /* left bytes of a body with a length */
    HTTP_REPLY_CHUNK_SIZE, /* the line with it */
    HTTP_REPLY_CHUNK,      /* left bytes of a chunk */
    HTTP_REPLY_CHUNK_END,  /* the line end behind it */
    HTTP_REPLY_TRAILER,    /* the lines behind the last chunk */
    HTTP_REPLY_DONE
};

struct http_reply {
    enum http_reply_state state;
    unsigned code;          /* 0: no head yet, else 200 .. 599 */
    uint32_t retry_after_s; /* 0: missing, or not in seconds */
    uint64_t left;
    uint32_t n_interim;
    uint32_t n_trailer;                   /* bytes */
    uint32_t n;                           /* bytes of line */
    char line[HTTP_REPLY_HEAD_BYTES_MAX]; /* the head, or a line between chunks */
};

/* Bytes of the body, in order. A failure ends the push, which returns it. */
typedef enum status (*http_reply_body)(void *arg, const char *bytes, size_t n, struct error *error);

void http_reply_init(struct http_reply *reply);

/* CORRUPT: not HTTP/1.1, or bytes after its end. UNSUPPORTED: see above. After a failure only init
 * may be called. */
MUST_CHECK enum status http_reply_push(struct http_reply *reply, const char *bytes, size_t n,
                                       http_reply_body body, void *arg, struct error *error);
