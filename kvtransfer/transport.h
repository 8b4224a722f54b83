/*
 * transport - moves pieces of KV blocks from another worker's pool into this one's.
 *
 * The receiver drives (get); the worker that owns the blocks answers from what its source says is
 * readable. ucx_transport.c is the real one, sim_transport.c delays, reorders, stalls and kills by a
 * seed and is what tests/sim runs whole clusters on. Nothing above knows which it has.
 *
 * Completion: a get that returns OK reports once, from transport_progress and never from the call
 * itself; a get that fails reports nothing. After peer_close has reported, nothing of that peer can
 * touch local memory, and every get of that peer has reported.
 *
 * Thread: one, the owner (the transfer thread); transport_wake from any.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/geometry.h"

struct transport;
struct transport_peer;

struct transfer_id {
    uint8_t bytes[16];
};

/* At most this many bytes cross in one message. */
#define PIECE_BYTES_MAX (256u * 1024u)

struct transport_address {
    uint8_t worker[1024]; /* opaque */
    uint32_t worker_bytes;
    uint8_t pool_key[512]; /* opaque; empty when the driver needs none */
    uint32_t pool_key_bytes;
    uint64_t pool_base;
    uint64_t incarnation;
};

/* One contiguous run of bytes of one block of a transfer. */
struct piece {
    uint32_t block_index; /* in the transfer's prompt, from its first block */
    uint32_t remote_block; /* id in the peer's pool */
    uint32_t offset;       /* bytes from the block's beginning */
    uint32_t bytes;        /* 1 .. PIECE_BYTES_MAX */
    uint8_t *target;       /* local memory */
};

typedef void (*transport_done)(void *arg, enum status status);

/* What a worker lets others read: implemented by kv_sender. Called from progress. */
struct transport_source {
    void *arg;
    /* The bytes of the block, borrowed until read_end; NULL when that block of that transfer may not
     * be read (unknown, not published, closed, another incarnation's). */
    const uint8_t *(*read_begin)(void *arg, const struct transfer_id *id,
                                 uint64_t reader_incarnation, uint32_t block_index);
    void (*read_end)(void *arg, const struct transfer_id *id, uint32_t bytes, enum status status);
};

struct transport_ops {
    const char *name; /* "am-tcp", "shm-read", "sim" */
    void (*close)(struct transport *transport);
    void (*address)(const struct transport *transport, struct transport_address *address_out);
    enum status (*connect)(struct transport *transport, const struct transport_address *address,
                           struct transport_peer **peer_out);
    /* piece->target must stay writable until done. */
    enum status (*get)(struct transport_peer *peer, const struct transfer_id *id,
                       const struct piece *piece, transport_done done, void *arg);
    /* Ends every get of the peer, then reports done and frees the peer. */
    void (*peer_close)(struct transport_peer *peer, transport_done done, void *arg);
    /* Returns the number of completions made. */
    unsigned (*progress)(struct transport *transport, uint64_t now_ns);
    /* Sleeps until something may have happened, at most until until_ns; woken by wake. */
    void (*wait)(struct transport *transport, uint64_t until_ns);
    void (*wake)(struct transport *transport);
};

/* First member of each implementation's object. */
struct transport {
    const struct transport_ops *ops;
    struct transport_source source; /* zero: lets nobody read */
    uint64_t late_pieces;           /* arrived for no get, dropped */
};
struct transport_peer {
    struct transport *transport;
};
