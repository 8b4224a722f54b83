/*
 * kv_receiver_state - what the two files of a receiver share.
 *
 *     kv_receiver.c   creation; the engine's side: transfers, what is wanted, events
 *     kv_pull.c       the transfer thread's side: pieces asked for, copies of the device, the end
 *
 * Thread: each field says whose it is.
 */
#pragma once

#include "base/ring.h"
#include "kvtransfer/kv_receiver.h"
#include "kvtransfer/notice.h"
#include "kvtransfer/peer_cache.h"
#include "kvtransfer/transfer_map.h"

/* A block that the engine wants. */
struct wanted {
    uint32_t remote, local, digest;
    bool has_digest;
    bool is_asked; /* (engine) */
    uint8_t stage; /* (transfer) of other blocks: its place */
};

#define STAGES_MAX   64u
#define STAGES_LEAST 2u /* so that one comes while another one is put in its place */

/* The engine thread's half of a transfer. It is written before OPEN and after QUIET was taken; in between wanted and order
 * only grow, behind n_ordered. */
struct slot {
    struct transfer_id id;
    struct transport_address peer;
    struct wanted *wanted;         /* [blocks_max] by index in the prompt */
    uint32_t *order;               /* [blocks_max] indices, in the order of fetch */
    _Atomic uint32_t n_ordered;    /* of order */
    struct notice fetch;           /* a FETCH is in commands: n_ordered has grown */
    struct kv_other_blocks others; /* put NULL: none */
    uint64_t stage_at;             /* its part of the stage: n_stages blocks of the peer */
    uint32_t n_stages;
    bool is_open; /* from open to the QUIET it has taken */
    bool close_asked;
    /* What the transfer thread tells. */
    struct notice arrived; /* an ARRIVED is in events: n_arrived and bytes have grown */
    _Atomic uint32_t n_arrived;
    _Atomic uint64_t bytes;
};

/* A block whose bytes have all come: on its way into the pool. */
struct landing {
    uint32_t block_index;
    uint32_t digest;           /* of what lies in the pool then */
    struct device_ticket done; /* it does, and the digest is known */
};

/* The transfer thread's half of the slot of the same number, from OPEN to QUIET. */
struct pull {
    bool is_live, is_closing, is_failed, is_runnable;
    struct cached_peer *peer; /* NULL: none, or gone */
    uint32_t n_done;          /* of order: every piece was asked for */
    uint32_t offset;          /* in the block order[n_done] */
    uint32_t *bytes_missing;  /* [blocks_max] of blocks that were asked for */
    uint32_t n_outstanding;   /* pieces */
    uint64_t stages_used;     /* a bit for each place of the stage */
    struct landing
        *landings; /* [blocks_max] in the order of done; of n_landings the first n_landed are */
    uint32_t n_landings, n_landed;
    struct device_ticket written; /* the device has nothing more to do with its blocks */
    uint64_t close_limit_ns;      /* when is_closing with pieces outstanding */
};

enum command_kind { COMMAND_OPEN, COMMAND_FETCH, COMMAND_CLOSE };

struct command {
    enum command_kind kind;
    uint32_t slot;
};

struct event {
    enum kv_receiver_event_kind kind;
    enum status status;
    uint32_t slot;
};

struct kv_receiver {
    struct kv_receiver_options options;
    struct transport *transport;
    uint32_t piece_bytes; /* that a block is asked for in; its last piece may be shorter */
    struct ring *commands, *drops, *events;
    _Atomic bool drop_all;  /* drops was full */
    uint32_t n_outstanding; /* (transfer) pieces, of all peers */
    struct slot *slots;     /* [transfers_max] */
    struct pull *pulls;     /* [transfers_max] */
    struct wanted *wanted;  /* [transfers_max][blocks_max] */
    uint32_t *order, *bytes_missing;
    struct landing *landings;
    uint8_t *stage;            /* [stage_bytes] */
    struct transfer_map by_id; /* (engine) open */
    uint32_t *free_slots;      /* (engine) [n_free], a stack */
    uint32_t n_free;
    struct peer_cache peers; /* (transfer) */
    uint32_t *runnable;      /* (transfer) ring of slots that have something to ask for */
    uint32_t runnable_head, n_runnable;
    uint32_t n_closing; /* (transfer) pulls that wait for their last piece or copy */
    bool is_copying;    /* (transfer) the device still copies, or had no room for a view */
    void (*notify)(void *arg);
    void *notify_arg;
    _Atomic uint64_t bytes_received;
};

/* (transfer) What peer_cache calls. arg: the receiver. */
void kv_pull_peer_closing(void *arg, struct cached_peer *peer);
void kv_pull_peer_closed(void *arg, struct cached_peer *peer);
