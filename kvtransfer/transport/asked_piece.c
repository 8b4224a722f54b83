#include "kvtransfer/transport/asked_piece.h"

#include "base/crc32c.h"
#include "base/log/log.h"

#include <assert.h>

static void note_overrun(const struct asked_bounds *bounds, struct transport_peer *reader)
{
    atomic_fetch_add(&reader->transport->full_pieces, 1);
    if (!reader->has_overrun)
        log_event(
            LOG_WARN, NULL, "a reader that asks for too many parts of KV at a time is refused",
            LOG_HEX("incarnation", reader->incarnation), LOG_U64("pieces_max", bounds->pieces_max));
    reader->has_overrun = true;
}

void asked_piece_take(struct asked_bounds *bounds, struct transport_peer *reader,
                      const struct wire_pull *pull, const struct wire_item *item,
                      struct asked_piece *piece_out)
{
    assert(reader->is_admitted && reader->n_reads <= bounds->n_reads);
    bool is_full = reader->n_reads >= bounds->pieces_max + bounds->spare ||
                   bounds->n_reads == bounds->reads_max;
    if (is_full)
        note_overrun(bounds, reader);
    if (!piece_out)
        return;
    *piece_out = (struct asked_piece){.read = {.id = pull->id,
                                               .reader_incarnation = pull->reader_incarnation,
                                               .block_index = item->block_index,
                                               .remote_block = item->block,
                                               .offset = item->offset,
                                               .bytes = item->bytes},
                                      .item = *item,
                                      .owner_incarnation = pull->owner_incarnation,
                                      .is_refused = is_full};
    if (is_full)
        return;
    bounds->n_reads++;
    reader->n_reads++;
    assert(bounds->n_reads <= bounds->reads_max);
}

bool asked_piece_answer(const struct transport_source *source, uint64_t incarnation,
                        struct asked_piece *piece, struct wire_piece *answer_out)
{
    const uint8_t *bytes = NULL;
    enum wire_answer answer = piece->is_refused ? ANSWER_FULL : ANSWER_STALE;
    if (!piece->is_refused && piece->owner_incarnation == incarnation) {
        enum status status = transport_read(source, &piece->read);
        if (status == STATUS_NOT_READY)
            return false;
        bytes = piece->read.view;
        assert((status == STATUS_OK) == (bytes != NULL));
        answer = bytes ? ANSWER_BYTES : ANSWER_NOT_HELD;
    }
    assert(piece->item.bytes <= PIECE_BYTES_MAX);
    *answer_out = (struct wire_piece){.answer = answer,
                                      .owner_incarnation = incarnation,
                                      .reader_incarnation = piece->read.reader_incarnation,
                                      .id = piece->read.id,
                                      .item = piece->item,
                                      .crc32c = crc32c(0, bytes, bytes ? piece->item.bytes : 0)};
    return true;
}

void asked_piece_end(struct asked_bounds *bounds, struct transport_peer *reader,
                     struct asked_piece *piece, enum status status)
{
    transport_read_end(&reader->transport->source, &piece->read, status);
    if (piece->is_refused)
        return;
    assert(reader->n_reads > 0 && bounds->n_reads > 0);
    bounds->n_reads--;
    reader->n_reads--;
}
