/*
 * transport - moves pieces of KV blocks from another worker's pool into this one's.
 *
 * The receiver asks for pieces (get). The owner of the blocks answers with what its source says is readable.
 * driver.h lists the real transports. sim_transport.c delays, reorders, stalls and kills by a seed; tests/sim
 * runs whole clusters on it. Code above this interface does not know which transport it has.
 *
 * Completion: a get that returns OK reports each of its pieces once, from progress and never from the call
 * itself. A get that fails reports nothing and keeps nothing. After peer_close has reported, nothing of that
 * peer can touch local memory, and every piece of that peer has been reported. A callback may call get and
 * peer_close, but not progress.
 *
 * Thread: one, the owner (the transfer thread); wake and expect from any.
 */
#pragma once

#include "base/status.h"
#include "device/device.h"
#include "kvcache/geometry.h"
#include "kvtransfer/transport/host_address.h"
#include "kvtransfer/transport/port_counts.h"

#include <stdatomic.h>
#include <stdint.h>

struct transport;
struct transport_peer;

struct transfer_id {
    uint8_t bytes[16];
};

/* At most this many bytes cross in one message. */
#define PIECE_BYTES_MAX (256u * 1024u)

#define TRANSPORT_SECRET_BYTES 32u

/* What a worker tells about itself in Describe. Describe authenticates both sides before this is used. */
struct transport_address {
    uint8_t worker[1024]; /* opaque */
    uint32_t worker_bytes;
    uint8_t pool_key[512]; /* opaque; empty when the driver needs none */
    uint32_t pool_key_bytes;
    uint64_t pool_base;
    uint64_t incarnation;
    uint32_t pieces_max; /* that it takes of one reader at a time; 0: it did not say */
    /* Of the network devices for the data; none when the data crosses no network. */
    struct host_address hosts[HOST_ADDRESSES_MAX];
    uint32_t n_hosts;
    uint8_t secret[TRANSPORT_SECRET_BYTES]; /* of this incarnation; never logged */
    uint32_t secret_bytes;                  /* 0 when the driver needs none */
};

/* One contiguous run of bytes of one block of a transfer. */
struct piece {
    uint32_t block_index;   /* in the transfer's prompt, from its first block */
    uint32_t remote_block;  /* id in the peer's pool */
    uint32_t offset;        /* bytes from the block's beginning */
    uint32_t bytes;         /* 1 .. PIECE_BYTES_MAX */
    uint64_t remote_offset; /* bytes from the beginning of the peer's pool, for remote reads */
    uint8_t *
        target; /* memory of the host: a view of the device's (device_write_begin); is_direct: the device's */
    uint32_t tag; /* the caller's, for its done */
};

/* Of one get; the first bound keeps a request's message under one TCP segment. */
#define GET_PIECES_MAX 64u

/* OK: the bytes are at the target. NOT_HELD: refused. STALE_PEER: another incarnation answered.
 * CORRUPT: damaged on the way; the target holds no valid data. QUEUE_FULL: more was asked for than
 * the owner takes of one reader. PEER_LOST. piece is valid during the call only. */
typedef void (*transport_got)(void *arg, const struct piece *piece, enum status status);
typedef void (*transport_done)(void *arg);

/* What a reader asks the owner for. */
struct block_read {
    struct transfer_id id;
    uint64_t reader_incarnation;
    uint32_t block_index;
    uint32_t remote_block;
    uint32_t offset, bytes;
    /* Set by the source; zero before the first read_begin. A read with a view has begun and needs a read_end. */
    const uint8_t *view;
    struct device_ticket copied;
};

/* What a worker lets others read. kv_sender implements it. progress calls it; close calls the read_end of each read that has
 * begun. */
struct transport_source {
    void *arg;
    /* An unknown reader asks. The source takes in what the engine has said so far; it may call admit and peer_close. */
    void (*refresh)(void *arg);
    /* OK: read->view has the bytes, until read_end. NOT_READY: the device still copies, or has no room to: ask again with
     * the same read from a later progress, or end it if it has begun. NOT_HELD: that run of that block of that transfer
     * may not be read (unknown, not published, closed, another reader's, out of the block). DEVICE_LOST. */
    enum status (*read_begin)(void *arg, struct block_read *read);
    /* Ends a read that has begun. status OK: the bytes were sent. Any other: perhaps not. */
    void (*read_end)(void *arg, struct block_read *read, enum status status);
};

/* Zero source: lets nobody read. */
static inline enum status transport_read(const struct transport_source *source,
                                         struct block_read *read)
{
    return source->read_begin ? source->read_begin(source->arg, read) : STATUS_NOT_HELD;
}

/* A read that has not begun is fine, and so is a source that is gone. */
static inline void transport_read_end(const struct transport_source *source,
                                      struct block_read *read, enum status status)
{
    if (read->view && source->read_end)
        source->read_end(source->arg, read, status);
}

struct transport_ops {
    const char *name; /* "am-tcp", "shm-read", "unix", "tls", "cuda-ipc", "sim" */
    /* It copies on the device's copy queue, straight from the owner's memory to the target, without views. The owner is not asked, so
     * the device must have written a block before it is published. */
    bool is_direct;
    uint32_t piece_bytes_max; /* what readers ask for at most; 0: PIECE_BYTES_MAX */
    /* Ends everything. Gets are not reported; reads of the source end. When it returns, nothing touches local
     * memory. */
    void (*close)(struct transport *transport);
    void (*address)(const struct transport *transport, struct transport_address *address_out);
    /* Connects to a worker to get from. PEER_LOST: it cannot be reached. NO_MEMORY. CORRUPT: not an address of this driver. */
    enum status (*connect)(struct transport *transport, const struct transport_address *address,
                           struct transport_peer **peer_out);
    /* (any thread) That worker will soon be admitted and connect: the accept gate lets it in. NULL: the driver has no
     * gate. */
    void (*expect)(struct transport *transport, const struct transport_address *address);
    /* Lets a worker get from here. What others ask is dropped. */
    enum status (*admit)(struct transport *transport, const struct transport_address *address,
                         struct transport_peer **peer_out);
    /* The pieces (1 .. GET_PIECES_MAX) are copied; their targets must stay valid until they are reported.
     * QUEUE_FULL: gets_max are outstanding. PEER_LOST: the peer has failed; close it. */
    enum status (*get)(struct transport_peer *peer, const struct transfer_id *id,
                       const struct piece *pieces, uint32_t n, transport_got got, void *arg);
    /* Ends every get of the peer, then reports done and frees the peer. */
    void (*peer_close)(struct transport_peer *peer, transport_done done, void *arg);
    /* Returns the work done, 0 for none. A wake that it takes counts as work: the caller must look again at its
     * own queues before it waits. */
    unsigned (*progress)(struct transport *transport, uint64_t now_ns);
    /* Sleeps until something may have happened or wake is called, at most until until_ns. */
    void (*wait)(struct transport *transport, uint64_t until_ns);
    void (*wake)(struct transport *transport);
};

/* First member of each implementation's object. */
struct transport {
    const struct transport_ops *ops;
    struct transport_source source; /* zero: lets nobody read */
    _Atomic uint64_t late_pieces;   /* arrived for no get: dropped */
    _Atomic uint64_t full_pieces;   /* asked for beyond what is taken: refused */
    _Atomic uint64_t joined_pieces; /* that UCX put together from several segments: a copy more */
    struct port_counts port;        /* port_counts_read */
};
struct transport_peer {
    struct transport *transport;
    uint64_t incarnation;
    bool is_failed; /* as far as progress knows: of no use but to peer_close */
    /* The driver's (peer_list.h): */
    struct transport_peer *next;
    bool is_admitted; /* may pull from here (peer_list_reader) */
    bool is_closing;  /* peer_close was called */
    bool has_overrun; /* admitted: has asked for more than it was told (asked_piece.h) */
    uint32_t n_reads; /* admitted: pieces of it taken and not ended */
    transport_done done;
    void *done_arg;
};
