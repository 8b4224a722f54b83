#include "kvtransfer/drivers/stream/stream_frame.h"

#include <assert.h>
#include <string.h>

static const uint8_t MAGIC[4] = {'K', 'V', 'F', '1'};

enum { KIND_AT = 4, OWN_AT = 8, HELLO_BYTES = 16 };

static void put(uint8_t *p, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *p, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

/* The size of the kind's own part of the head. 0: there is no such kind. */
static size_t own_bytes(uint64_t kind)
{
    switch (kind) {
    case FRAME_HELLO:
        return HELLO_BYTES;
    case FRAME_PULL:
        return PULL_HEADER_BYTES;
    case FRAME_PIECE:
        return PIECE_HEADER_BYTES;
    default:
        return 0;
    }
}

void stream_frame_encode(const struct stream_frame *frame, uint8_t out[FRAME_HEAD_BYTES])
{
    memset(out, 0, FRAME_HEAD_BYTES);
    memcpy(out, MAGIC, sizeof MAGIC);
    put(out + KIND_AT, frame->kind, 4);
    switch (frame->kind) {
    case FRAME_HELLO:
        put(out + OWN_AT, frame->hello.reader_incarnation, 8);
        put(out + OWN_AT + 8, frame->hello.connection, 8);
        break;
    case FRAME_PULL:
        wire_pull_encode(&frame->pull, out + OWN_AT);
        break;
    case FRAME_PIECE:
        wire_piece_encode(&frame->piece, out + OWN_AT);
        break;
    }
}

static bool is_zero(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != 0)
            return false;
    return true;
}

bool stream_frame_decode(const uint8_t head[FRAME_HEAD_BYTES], struct stream_frame *frame_out)
{
    const uint8_t *own = head + OWN_AT;
    uint64_t kind = get(head + KIND_AT, 4);
    size_t bytes = own_bytes(kind);
    if (memcmp(head, MAGIC, sizeof MAGIC) != 0 || bytes == 0 ||
        !is_zero(own + bytes, FRAME_HEAD_BYTES - OWN_AT - bytes))
        return false;
    *frame_out = (struct stream_frame){.kind = (enum frame_kind)kind};
    switch (frame_out->kind) {
    case FRAME_HELLO:
        frame_out->hello = (struct wire_hello){get(own, 8), get(own + 8, 8)};
        return true;
    case FRAME_PULL:
        return wire_pull_decode_header(own, &frame_out->pull);
    case FRAME_PIECE:
        return wire_piece_decode_header(own, &frame_out->piece);
    }
    return false;
}

size_t stream_frame_body_bytes(const struct stream_frame *frame)
{
    switch (frame->kind) {
    case FRAME_PULL:
        return (size_t)frame->pull.n * PULL_ITEM_BYTES;
    case FRAME_PIECE:
        return frame->piece.answer == ANSWER_BYTES ? frame->piece.item.bytes : 0;
    case FRAME_HELLO:
        break;
    }
    return 0;
}

/* ---- the parser ---- */

void frame_parser_init(struct frame_parser *parser)
{
    parser->body = NULL;
    parser->body_bytes = 0;
    parser->at = 0;
}

uint8_t *frame_parser_room(struct frame_parser *parser, size_t *bytes_out)
{
    size_t whole = parser->body ? parser->body_bytes : FRAME_HEAD_BYTES;
    assert(parser->at < whole && (parser->body || parser->body_bytes == 0));
    *bytes_out = whole - parser->at;
    return (parser->body ? parser->body : parser->head) + parser->at;
}

static enum frame_step take_head(struct frame_parser *parser)
{
    if (!stream_frame_decode(parser->head, &parser->frame))
        return FRAME_BAD;
    parser->at = 0;
    parser->body_bytes = stream_frame_body_bytes(&parser->frame);
    if (parser->body_bytes == 0)
        return FRAME_WHOLE;
    if (parser->frame.kind == FRAME_PIECE)
        return FRAME_PLACE;
    parser->body = parser->items;
    return FRAME_MORE;
}

enum frame_step frame_parser_take(struct frame_parser *parser, size_t bytes)
{
    size_t whole = parser->body ? parser->body_bytes : FRAME_HEAD_BYTES;
    assert(bytes <= whole - parser->at);
    parser->at += bytes;
    if (parser->at < whole)
        return FRAME_MORE;
    if (!parser->body)
        return take_head(parser);
    frame_parser_init(parser);
    return FRAME_WHOLE;
}

void frame_parser_place(struct frame_parser *parser, uint8_t *body)
{
    assert(!parser->body && parser->frame.kind == FRAME_PIECE && parser->body_bytes > 0);
    parser->body = body;
}
