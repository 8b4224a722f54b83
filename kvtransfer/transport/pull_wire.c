#include "kvtransfer/transport/pull_wire.h"

#include <assert.h>
#include <string.h>

enum { VERSION = 1 };

static void put32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *p, uint64_t value)
{
    put32(p, (uint32_t)value);
    put32(p + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

void wire_pull_encode(const struct wire_pull *pull, uint8_t out[PULL_HEADER_BYTES])
{
    put32(out, VERSION);
    put32(out + 4, pull->n);
    put64(out + 8, pull->reader_incarnation);
    put64(out + 16, pull->owner_incarnation);
    memcpy(out + 24, pull->id.bytes, sizeof pull->id.bytes);
    put64(out + 40, pull->connection);
}

void wire_item_encode(const struct wire_item *item, uint8_t out[PULL_ITEM_BYTES])
{
    put32(out, item->get);
    put32(out + 4, item->generation);
    put32(out + 8, item->block_index);
    put32(out + 12, item->block);
    put32(out + 16, item->offset);
    put32(out + 20, item->bytes);
}

void wire_piece_encode(const struct wire_piece *piece, uint8_t out[PIECE_HEADER_BYTES])
{
    put32(out, VERSION);
    put32(out + 4, piece->answer);
    put64(out + 8, piece->owner_incarnation);
    put64(out + 16, piece->reader_incarnation);
    memcpy(out + 24, piece->id.bytes, sizeof piece->id.bytes);
    wire_item_encode(&piece->item, out + 40);
    put32(out + 64, piece->crc32c);
}

bool wire_pull_decode_header(const uint8_t header[PULL_HEADER_BYTES], struct wire_pull *pull_out)
{
    if (get32(header) != VERSION)
        return false;
    *pull_out = (struct wire_pull){.n = get32(header + 4),
                                   .reader_incarnation = get64(header + 8),
                                   .owner_incarnation = get64(header + 16),
                                   .connection = get64(header + 40)};
    memcpy(pull_out->id.bytes, header + 24, sizeof pull_out->id.bytes);
    return pull_out->n >= 1 && pull_out->n <= GET_PIECES_MAX;
}

bool wire_pull_decode(const void *header, size_t header_bytes, size_t data_bytes,
                      struct wire_pull *pull_out)
{
    return header_bytes == PULL_HEADER_BYTES && wire_pull_decode_header(header, pull_out) &&
           data_bytes == (size_t)pull_out->n * PULL_ITEM_BYTES;
}

bool wire_item_decode(const void *data, uint32_t index, struct wire_item *item_out)
{
    assert(index < GET_PIECES_MAX);
    const uint8_t *p = (const uint8_t *)data + (size_t)index * PULL_ITEM_BYTES;
    *item_out = (struct wire_item){.get = get32(p),
                                   .generation = get32(p + 4),
                                   .block_index = get32(p + 8),
                                   .block = get32(p + 12),
                                   .offset = get32(p + 16),
                                   .bytes = get32(p + 20)};
    return item_out->bytes >= 1 && item_out->bytes <= PIECE_BYTES_MAX;
}

bool wire_piece_decode_header(const uint8_t header[PIECE_HEADER_BYTES],
                              struct wire_piece *piece_out)
{
    if (get32(header) != VERSION || get32(header + 4) >= N_ANSWERS)
        return false;
    *piece_out = (struct wire_piece){.answer = (enum wire_answer)get32(header + 4),
                                     .owner_incarnation = get64(header + 8),
                                     .reader_incarnation = get64(header + 16),
                                     .crc32c = get32(header + 64)};
    memcpy(piece_out->id.bytes, header + 24, sizeof piece_out->id.bytes);
    return wire_item_decode(header + 40, 0, &piece_out->item);
}

bool wire_piece_decode(const void *header, size_t header_bytes, size_t data_bytes,
                       struct wire_piece *piece_out)
{
    return header_bytes == PIECE_HEADER_BYTES && wire_piece_decode_header(header, piece_out) &&
           data_bytes == (piece_out->answer == ANSWER_BYTES ? piece_out->item.bytes : 0);
}
