/*
 * kv_sender - the context worker's side of a KV transfer. It says who may read which blocks of which transfer, and
 * keeps the blocks until the last operation on them has reported back.
 *
 *     engine thread                          transfer thread
 *     open, publish*, close  ---commands-->  progress: answers pulls
 *     next_event: QUIET      <---events----
 *
 * The reader that open named may read a published block until close. No read begins after close. QUIET comes when the
 * last one has ended. Until then the engine keeps the blocks (a fence).
 *
 * Bytes are read through the device. publish records a ticket on the compute queue, behind the chunk that wrote the blocks.
 * A read on the copy queue runs after that ticket, and has ended when its own copy is done.
 *
 * Bounds: transfers_max transfers open or not yet quiet, blocks_max blocks each. Commands and events have room for all that
 * these can cause, so that neither side waits. An id is open until next_event has returned its QUIET.
 *
 * Thread: create and destroy on any, while nothing runs; progress on the transfer thread; the functions marked
 * (engine) on the engine thread.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_sender;

struct kv_sender_options {
    uint32_t transfers_max;
    uint32_t blocks_max;      /* of one transfer */
    struct device *device;    /* borrowed: its copy queue is the transfer thread's */
    const uint8_t *pool_base; /* of the device */
    size_t block_bytes;
    uint32_t n_blocks;    /* of the pool */
    uint32_t readers_max; /* workers that may read from here; 0: KV_READERS_DEFAULT */
    /* A reader that has not taken what was being sent within this of a close is cut off (it may
     * come back); 0: KV_SENDER_QUIET_NS. */
    uint64_t quiet_limit_ns;
};

#define KV_READERS_DEFAULT 64u
#define KV_SENDER_QUIET_NS 2000000000ull

/* transport is borrowed; its source becomes this sender. */
MUST_CHECK enum status kv_sender_create(const struct kv_sender_options *options,
                                        struct transport *transport, struct kv_sender **sender_out);
/* Then close the transport, then destroy the pool. NULL is fine. */
void kv_sender_destroy(struct kv_sender *sender);

/* (any) Lets that incarnation of a worker read from here; the address comes from its Describe. A second call changes nothing. At
 * readers_max the reader that was silent for longest is removed, if that was a minute or more and it has no transfer; else
 * the new one is not admitted, and the log says so. QUEUE_FULL: try again. */
MUST_CHECK enum status kv_sender_admit(struct kv_sender *sender,
                                       const struct transport_address *reader);

/* (engine) QUEUE_FULL: transfers_max are open. DUPLICATE_REQUEST: the id is. */
MUST_CHECK enum status kv_sender_open(struct kv_sender *sender, const struct transfer_id *id,
                                      uint64_t reader_incarnation);
/* (any) Readers read without asking. The device must have written a block, and the host must have seen that, before publish. */
bool kv_sender_is_read_alone(const struct kv_sender *sender);
/* (engine) Blocks first_index .. of the open transfer can be read from now on. The work that writes them has been enqueued on
 * the compute queue; where readers read without asking, it is done. */
void kv_sender_publish(struct kv_sender *sender, const struct transfer_id *id, uint32_t first_index,
                       const uint32_t *block_ids, uint32_t n);
/* (engine) Once for each open transfer; QUIET follows. */
void kv_sender_close(struct kv_sender *sender, const struct transfer_id *id);

struct kv_sender_event { /* QUIET is the only one */
    struct transfer_id id;
    uint64_t bytes_sent;
};
/* (engine) False: none. */
bool kv_sender_next_event(struct kv_sender *sender, struct kv_sender_event *event_out);
/* (engine) The transfer thread calls notify when it has added an event. notify may be NULL. Set it before the thread runs. */
void kv_sender_on_event(struct kv_sender *sender, void (*notify)(void *arg), void *arg);

/* (transfer) Takes commands, runs the transport. Returns the work done. */
unsigned kv_sender_progress(struct kv_sender *sender, uint64_t now_ns);
/* (transfer) When progress has something to do although nothing arrives; DEADLINE_NONE: never. */
uint64_t kv_sender_deadline_ns(const struct kv_sender *sender);

/* Any thread. */
uint64_t kv_sender_bytes_sent(const struct kv_sender *sender);
/* Pieces that readers asked for beyond their bound. */
uint64_t kv_sender_pieces_refused(const struct kv_sender *sender);
