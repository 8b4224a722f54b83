/*
 * pull_wire - the two messages of a KV transfer, pull and piece: active messages of the am-tcp driver, frames
 * of our own streams (stream_frame.h). Little endian.
 *
 * pull, reader to owner: which pieces of one transfer it wants.
 *
 *     header   0  u32  version, 1             data, 24 bytes a piece, 1 .. GET_PIECES_MAX of them
 *              4  u32  number of pieces           0  u32  get         the reader's slot
 *              8  u64  incarnation, reader        4  u32  generation  of that slot
 *             16  u64  incarnation, owner         8  u32  block index in the prompt
 *             24  16 B transfer id               12  u32  block in the owner's pool
 *             40  u64  connection                16  u32  offset      20  u32  bytes
 *             48
 *
 * connection counts the reader's endpoints. A greater number tells the owner that its older connection to
 * that reader is obsolete, even when it has not failed yet.
 *
 * piece, owner to reader: one for each piece of a pull, in any order.
 *
 *     header   0  u32  version, 1                40  u32  get         44  u32  generation
 *              4  u32  answer                    48  u32  block index 52  u32  block
 *              8  u64  incarnation, owner        56  u32  offset      60  u32  bytes
 *             16  u64  incarnation, reader       64  u32  CRC32C of the data
 *             24  16 B transfer id               68
 *     data     the bytes, or nothing when the answer is not ANSWER_BYTES
 *
 * Thread: any. Decoding checks sizes and bounds, and no permissions.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PULL_HEADER_BYTES = 48, PULL_ITEM_BYTES = 24, PIECE_HEADER_BYTES = 68 };

enum wire_answer { ANSWER_BYTES, ANSWER_NOT_HELD, ANSWER_STALE, ANSWER_FULL, N_ANSWERS };

struct wire_pull {
    uint32_t n;
    uint64_t reader_incarnation, owner_incarnation;
    struct transfer_id id;
    uint64_t connection;
};

struct wire_item {
    uint32_t get, generation;
    uint32_t block_index, block, offset, bytes;
};

struct wire_piece {
    enum wire_answer answer;
    uint64_t owner_incarnation, reader_incarnation;
    struct transfer_id id;
    struct wire_item item;
    uint32_t crc32c;
};

void wire_pull_encode(const struct wire_pull *pull, uint8_t out[PULL_HEADER_BYTES]);
void wire_item_encode(const struct wire_item *item, uint8_t out[PULL_ITEM_BYTES]);
void wire_piece_encode(const struct wire_piece *piece, uint8_t out[PIECE_HEADER_BYTES]);

/* False: malformed. */
bool wire_pull_decode(const void *header, size_t header_bytes, size_t data_bytes,
                      struct wire_pull *pull_out);
bool wire_item_decode(const void *data, uint32_t index, struct wire_item *item_out);
bool wire_piece_decode(const void *header, size_t header_bytes, size_t data_bytes,
                       struct wire_piece *piece_out);
/* The same before the data is there. */
bool wire_pull_decode_header(const uint8_t header[PULL_HEADER_BYTES], struct wire_pull *pull_out);
bool wire_piece_decode_header(const uint8_t header[PIECE_HEADER_BYTES],
                              struct wire_piece *piece_out);
