/*
 * kv_receiver - the generation worker's side of a KV transfer. It reads the blocks that ready events name into
 * blocks of its own pool, and tells when they have arrived and when they are quiet.
 *
 *     engine thread                          transfer thread
 *     open, fetch*, close    ---commands-->  progress: pulls pieces, at most window_max outstanding
 *     next_event             <---events----  ARRIVED, FAILED, QUIET
 *
 * Only this object, or an operation that it posted, writes the local blocks. The transport fills views of the device, and
 * the copy queue copies them to the blocks. A block has ARRIVED when the host has seen that its copy and its digest are
 * done: any step that is enqueued after that may read it. No read begins after close. QUIET comes when nothing can touch
 * the transfer's blocks any more, neither the peer nor a copy of the device; the endpoint of a peer that does not answer is
 * closed by force for this. A transfer that FAILED must still be closed. Peers are cached by incarnation and dropped
 * together with everything known about them.
 *
 * Bounds: transfers_max transfers open or not yet quiet, blocks_max blocks each, peers_max peers. Commands and events have
 * room for all that these can cause; several ARRIVED become one.
 *
 * Thread: as kv_sender.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_receiver;

struct kv_receiver_options {
    uint32_t transfers_max;
    uint32_t blocks_max; /* of one transfer */
    uint32_t peers_max;
    uint32_t window_max; /* pieces asked for and not arrived, a peer; its own pieces_max if less */
    struct device *device; /* borrowed: its copy queue is the transfer thread's */
    uint8_t *pool_base;    /* of the device */
    size_t block_bytes;
    uint32_t n_blocks; /* of the pool */
    uint64_t
        stage_bytes; /* of all transfers: room for blocks that are not like the pool's; 0: none come */
    bool scrubs;     /* bytes of the stage become zero when nothing needs them */
    /* A peer whose gets do not end within this of a transfer's close is closed by force. */
    uint64_t quiet_limit_ns;
};

/* The bytes of a block's pieces: as few as the limit allows, and equal, but for the last one. A block of 64 KiB under a limit of
 * 60 is two of 32, not 60 and 4. piece_bytes_max: a multiple of 64. */
uint32_t kv_piece_bytes(uint64_t block_bytes, uint32_t piece_bytes_max);

/* transport is borrowed. */
MUST_CHECK enum status kv_receiver_create(const struct kv_receiver_options *options,
                                          struct transport *transport,
                                          struct kv_receiver **receiver_out);
/* Then close the transport, then destroy the pool. NULL is fine. */
void kv_receiver_destroy(struct kv_receiver *receiver);

/* The peer's blocks are not like the pool's. A block arrives in memory of the receiver's; when it is whole, and its digest right,
 * put takes it from there to the pool. The pool is in the host's memory. */
struct kv_other_blocks {
    uint64_t block_bytes;
    /* (transfer) index: as in kv_fetch. Not called any more after QUIET. */
    void (*put)(void *arg, uint32_t index, const uint8_t *block);
    void *arg;
};

/* (engine) Copies the address and others. others NULL: the peer's blocks are like the pool's. QUEUE_FULL: transfers_max are open.
 * DUPLICATE_REQUEST: the id is. NO_MEMORY: the stage has no room for two of the peer's blocks, beside those of other transfers. */
MUST_CHECK enum status kv_receiver_open(struct kv_receiver *receiver, const struct transfer_id *id,
                                        const struct transport_address *peer,
                                        const struct kv_other_blocks *others);

struct kv_fetch {
    uint32_t first_index; /* in the prompt's blocks */
    uint32_t n;
    const uint32_t *remote_blocks; /* [n] ids in the peer's pool */
    const uint32_t
        *local_blocks; /* [n] ids in this pool, acquired and marked inbound; NULL: other blocks */
    const uint32_t *digests; /* [n] CRC32C to compare, or NULL */
};
/* (engine) The arrays are copied. A block is fetched at most once a transfer. */
void kv_receiver_fetch(struct kv_receiver *receiver, const struct transfer_id *id,
                       const struct kv_fetch *fetch);
/* (engine) Once for each open transfer; QUIET follows. */
void kv_receiver_close(struct kv_receiver *receiver, const struct transfer_id *id);
/* (engine) Drops what is cached of that incarnation. Its transfers FAIL with PEER_LOST. */
void kv_receiver_drop_peer(struct kv_receiver *receiver, uint64_t incarnation);

enum kv_receiver_event_kind {
    KV_ARRIVED, /* n_blocks of the transfer have arrived and were verified, in all */
    KV_FAILED,  /* status says why: PEER_LOST, CORRUPT (digest), NOT_HELD (the sender refused),
                   STALE_PEER, QUEUE_FULL (peers_max are in use; more than the sender takes), DEVICE_LOST */
    KV_QUIET    /* the transfer is gone, its blocks are nobody's target */
};

struct kv_receiver_event {
    enum kv_receiver_event_kind kind;
    struct transfer_id id;
    enum status status;
    uint32_t n_blocks;
    uint64_t bytes;
};
/* (engine) False: none. */
bool kv_receiver_next_event(struct kv_receiver *receiver, struct kv_receiver_event *event_out);
/* notify, from the transfer thread: FAILED, QUIET, or all that was fetched so far has arrived. */
void kv_receiver_on_event(struct kv_receiver *receiver, void (*notify)(void *arg), void *arg);

/* (transfer) Takes commands, posts gets, runs the transport. Returns the work done. */
unsigned kv_receiver_progress(struct kv_receiver *receiver, uint64_t now_ns);
/* (transfer) When progress has something to do although nothing arrives; DEADLINE_NONE: never. */
uint64_t kv_receiver_deadline_ns(const struct kv_receiver *receiver);

/* Any thread. */
uint64_t kv_receiver_bytes_received(const struct kv_receiver *receiver);
