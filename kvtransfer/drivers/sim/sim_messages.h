/*
 * sim_messages - the messages under way to one endpoint of the simulated network: a heap, ordered by
 * due time, then by the order of pushes.
 *
 * Thread: the fabric's.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>

enum sim_message_kind {
    SIM_REQUEST,  /* reader -> owner: please send a piece */
    SIM_SENT,     /* at the owner: the network has read the piece from its memory */
    SIM_PIECE,    /* owner -> reader */
    SIM_LOST,     /* at the reader: its peer has failed */
    SIM_CLOSE_END /* at the reader: peer_close is done */
};

struct sim_message {
    uint64_t due_ns, sequence; /* ordered by both */
    enum sim_message_kind kind;
    uint32_t from_place;
    uint64_t to_incarnation;
    uint64_t number;        /* of the get, or of the peer */
    struct block_read read; /* REQUEST, SENT: with a view between read_begin and read_end */
    uint8_t *bytes;         /* PIECE: owned; NULL: refused */
    enum status status;
};

struct sim_messages {
    struct sim_message *heap; /* [n_max] of which n, the first is due first */
    uint32_t n, n_max;
};

/* Takes over bytes. False: no memory; bytes stay the caller's. */
bool sim_messages_push(struct sim_messages *messages, const struct sim_message *message);
/* There is one; the caller owns its bytes. */
struct sim_message sim_messages_pop(struct sim_messages *messages);
/* bytes of what is left must have been freed. */
void sim_messages_finish(struct sim_messages *messages);
