/*
 * asked_piece - a piece that a reader asked this owner for, from its pull to its answer.
 *
 * Bounds: reads_max pieces of all readers, pieces_max of one. A piece beyond a bound is counted, and is refused when there is
 * room to refuse it.
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/transport/pull_wire.h"

struct asked_bounds {
    uint32_t reads_max;
    uint32_t pieces_max; /* as readers are told */
    uint32_t spare;      /* that one reader may have beyond them */
    uint32_t n_reads;    /* pieces taken and not ended, refused ones apart */
};

struct asked_piece {
    struct block_read read;
    struct wire_item item;
    uint64_t owner_incarnation; /* that the reader asked */
    bool is_refused;            /* there is no room for it */
};

/* Takes a piece of a pull. piece_out is NULL when there is no room even to refuse it. */
void asked_piece_take(struct asked_bounds *bounds, struct transport_peer *reader,
                      const struct wire_pull *pull, const struct wire_item *item,
                      struct asked_piece *piece_out);
/* False: the device still copies its bytes; ask again. True: the answer is whole, and its bytes, if it has any, are at
 * piece->read.view. */
bool asked_piece_answer(const struct transport_source *source, uint64_t incarnation,
                        struct asked_piece *piece, struct wire_piece *answer_out);
/* OK: its bytes were sent. */
void asked_piece_end(struct asked_bounds *bounds, struct transport_peer *reader,
                     struct asked_piece *piece, enum status status);
