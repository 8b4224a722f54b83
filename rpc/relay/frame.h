/*
 * frame - reads the heads of HTTP/2 frames in a stream of bytes; payloads are only counted.
 *
 *     0       3     4      5            9
 *     | length | type | flags | stream id | length bytes of payload ...
 *
 * No memory but the walker, no I/O. Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_BYTES    9
#define FRAME_RESET_BYTES   (FRAME_HEAD_BYTES + 4)
#define FRAME_UPDATE_BYTES  (FRAME_HEAD_BYTES + 4)
#define FRAME_PING_BYTES    (FRAME_HEAD_BYTES + 8)
#define FRAME_TEXT_MAX      64
#define FRAME_STREAM_MAX    0x7fffffffu
#define FRAME_GOAWAY_MAX    (FRAME_HEAD_BYTES + 8 + FRAME_TEXT_MAX)
#define FRAME_PREFACE       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define FRAME_PREFACE_BYTES (sizeof FRAME_PREFACE - 1)

enum frame_type {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RST_STREAM,
    FRAME_SETTINGS,
    FRAME_PUSH_PROMISE,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW_UPDATE,
    FRAME_CONTINUATION,
};

enum frame_flag {
    FRAME_FLAG_END_STREAM = 0x1,
    FRAME_FLAG_ACK = 0x1, /* of SETTINGS and PING */
    FRAME_FLAG_END_HEADERS = 0x4,
    FRAME_FLAG_PADDED = 0x8, /* the payload begins with the length of its padding */
};

enum frame_error {
    FRAME_NO_ERROR = 0,
    FRAME_PROTOCOL_ERROR = 1,
    FRAME_INTERNAL_ERROR = 2,
    FRAME_FLOW_CONTROL_ERROR = 3,
    FRAME_SETTINGS_TIMEOUT = 4,
    FRAME_SIZE_ERROR = 6,
    FRAME_REFUSED_STREAM = 7,
    FRAME_CANCEL = 8,
    FRAME_ENHANCE_YOUR_CALM = 11,
};

struct frame_head {
    uint32_t length;
    uint32_t stream;
    uint8_t type;
    uint8_t flags;
};

/* The position of a stream of bytes in its frames; zeros at the start. */
struct frame_walker {
    uint8_t head[FRAME_HEAD_BYTES];
    uint8_t n_head;  /* bytes of the present head */
    uint32_t n_left; /* missing bytes of the payload */
};

enum frame_step {
    FRAME_STEP_PART, /* the bytes ended before that */
    FRAME_STEP_HEAD, /* a head is complete; with length 0 the frame is, too */
    FRAME_STEP_END,  /* a payload is complete */
};

/* Reads the rest of a head or of a payload, and returns how many of the n > 0 bytes it read.
 * *head_out is set at FRAME_STEP_HEAD. */
size_t frame_walk(struct frame_walker *walker, const uint8_t *bytes, size_t n,
                  enum frame_step *step_out, struct frame_head *head_out);
/* Whether a frame may be inserted here. */
bool frame_is_boundary(const struct frame_walker *walker);

void frame_put_reset(uint8_t out[FRAME_RESET_BYTES], uint32_t stream, enum frame_error error);
/* Writes a WINDOW_UPDATE of that many bytes, 1 .. 2^31 - 1. */
void frame_put_update(uint8_t out[FRAME_UPDATE_BYTES], uint32_t stream, uint32_t n_bytes);
/* The number of bytes in a whole WINDOW_UPDATE. */
uint32_t frame_update_bytes(const uint8_t frame[FRAME_UPDATE_BYTES]);
/* How many more bytes, from a boundary on, are needed to know the head and the number of a WINDOW_UPDATE; 0: enough. */
size_t frame_missing(const uint8_t *bytes, size_t n);
void frame_put_ping(uint8_t out[FRAME_PING_BYTES]);
/* text is cut at FRAME_TEXT_MAX. Returns the number of bytes written. */
size_t frame_put_goaway(uint8_t out[FRAME_GOAWAY_MAX], uint32_t last_stream, enum frame_error error,
                        const char *text);
