/*
 * stream_frame - the frames of our own streams, and their parser, which does no I/O. Little endian.
 *
 *     head, 80 bytes    0  u32  magic, "KVF1"      4  u32  kind      8  the kind's own, then zeros
 *
 *     hello (1)         8  u64  incarnation of the reader; this frame comes first
 *                      16  u64  connection: a greater number replaces the older connections
 *     pull  (2)         8  as in pull_wire.h, 48 bytes;  behind the head: its items
 *     piece (3)         8  as in pull_wire.h, 68 bytes;  behind the head: its bytes, if it has any
 *
 * No frame has a length field: the head implies the size of the body.
 *
 * Thread: any. Parsing checks sizes and bounds, and no permissions.
 */
#pragma once

#include "kvtransfer/transport/pull_wire.h"

enum frame_kind { FRAME_HELLO = 1, FRAME_PULL = 2, FRAME_PIECE = 3 };

enum {
    FRAME_HEAD_BYTES = 80,
    FRAME_ITEMS_BYTES_MAX = (int)GET_PIECES_MAX * PULL_ITEM_BYTES,
};

struct wire_hello {
    uint64_t reader_incarnation, connection;
};

struct stream_frame {
    enum frame_kind kind;
    union {
        struct wire_hello hello;
        struct wire_pull pull;
        struct wire_piece piece;
    };
};

void stream_frame_encode(const struct stream_frame *frame, uint8_t out[FRAME_HEAD_BYTES]);
/* False: malformed. */
bool stream_frame_decode(const uint8_t head[FRAME_HEAD_BYTES], struct stream_frame *frame_out);
/* What follows the head. */
size_t stream_frame_body_bytes(const struct stream_frame *frame);

/* Splits a stream into frames. The caller puts the bytes where the parser says. */
struct frame_parser {
    uint8_t head[FRAME_HEAD_BYTES];
    uint8_t items[FRAME_ITEMS_BYTES_MAX]; /* of a whole pull */
    struct stream_frame frame;
    uint8_t *body;     /* NULL while the head is incomplete */
    size_t body_bytes; /* 0: none */
    size_t at;         /* of the head, or of the body */
};

enum frame_step {
    FRAME_MORE,  /* nothing yet */
    FRAME_PLACE, /* the head of a piece with bytes: say where they go */
    FRAME_WHOLE, /* frame and its body are complete */
    FRAME_BAD,   /* nothing that follows means anything */
};

void frame_parser_init(struct frame_parser *parser);
/* Where the next bytes belong, and how many fit there, at least one. Borrowed until taken. */
uint8_t *frame_parser_room(struct frame_parser *parser, size_t *bytes_out);
/* The caller has put n bytes there. After FRAME_WHOLE the next call is about the next frame. */
enum frame_step frame_parser_take(struct frame_parser *parser, size_t bytes);
/* After FRAME_PLACE: room for the bytes of the piece. */
void frame_parser_place(struct frame_parser *parser, uint8_t *body);
