/*
 * render_frame - what a router and the process that renders its chat templates send each other, over a stream socket.
 *
 *      0  u32  kind
 *      4  u32  bytes of the body, which follows
 *      8  u64  a
 *     16  u64  b                       little-endian
 *
 *     kind       a                      b                    body
 *     TOKENS     fuel                   most bytes a prompt  JSON object: bos_token, ...
 *     TEMPLATE   bytes of its name      0                    name, source
 *     RENDER     unix time, seconds     mark or 0            JSON: README.md
 *     ANSWER     enum jinja_result      0                    the prompt; the sentence of a failure
 *
 * A body has at most the bytes that its reader expects; what is beyond that, or no frame, ends the connection.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDER_FRAME_BYTES  24
#define RENDER_ANSWER_MAX   8            /* values of enum jinja_result */
#define RENDER_NAME_MAX     64           /* bytes of a template's name */
#define RENDER_SENTENCE_MAX 1024         /* bytes of a failure's body */
#define RENDER_BODY_LIMIT   (256u << 20) /* of any body */

enum render_kind { RENDER_TOKENS = 1, RENDER_TEMPLATE, RENDER_RENDER, RENDER_ANSWER };

struct render_frame {
    enum render_kind kind;
    uint32_t body_bytes;
    uint64_t a, b;
};

void render_frame_encode(const struct render_frame *frame, uint8_t out[RENDER_FRAME_BYTES]);
/* False: no frame, or one whose body is over body_bytes_max. */
bool render_frame_decode(const uint8_t bytes[RENDER_FRAME_BYTES], uint32_t body_bytes_max,
                         struct render_frame *frame_out);

/* Whole, by deadline_ns; the descriptor does not block. PEER_LOST: the other end is gone. TIMED_OUT. */
MUST_CHECK enum status render_frame_send(int fd, const struct render_frame *frame, const char *body,
                                         uint64_t deadline_ns);
/* body_out has a NUL behind it; the caller frees. As above; CORRUPT: what came is no frame, or too long; NO_MEMORY. */
MUST_CHECK enum status render_frame_receive(int fd, uint32_t body_bytes_max, uint64_t deadline_ns,
                                            struct render_frame *frame_out, char **body_out);
