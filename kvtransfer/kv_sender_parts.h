/*
 * kv_sender_parts - what the files of a sender share: transfers (kv_sender.c) and readers (sender_readers.c).
 *
 * Thread: as each member says; readers are the transfer thread's.
 */
#pragma once

#include "base/clock.h"
#include "base/ring.h"
#include "kvtransfer/kv_sender.h"
#include "kvtransfer/transfer_map.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The engine thread's half of a transfer. It is written before OPEN and after QUIET was taken; in between only published
 * grows. */
struct sender_slot {
    struct transfer_id id;
    uint64_t reader_incarnation;
    _Atomic uint32_t *published;   /* [blocks_max] pool blocks, UNPUBLISHED: not yet */
    struct device_ticket *written; /* [blocks_max] of published blocks: what wrote them is done */
    uint32_t n_published_end;      /* past the last published index */
    bool is_open;                  /* from open to the QUIET it has taken */
    bool close_asked;
};

/* The transfer thread's half of the slot of the same number, from OPEN to QUIET. */
struct sender_lease {
    struct transfer_id id;
    uint64_t reader_incarnation;
    bool is_live, is_closing;
    uint32_t n_reads; /* begun and not ended */
    uint64_t bytes_sent;
    uint64_t close_limit_ns; /* when is_closing */
};

struct sender_reader {
    struct transport_peer *peer; /* NULL: free */
    uint64_t incarnation;
    uint64_t last_used_ns;
    uint32_t n_open;
    struct transport_address address;
};

struct kv_sender {
    struct kv_sender_options options;
    struct transport *transport;
    struct ring *commands, *admissions, *events;
    struct sender_slot *slots;   /* [transfers_max] */
    struct sender_lease *leases; /* [transfers_max] */
    _Atomic uint32_t *published; /* [transfers_max][blocks_max] */
    struct device_ticket *written;
    struct transfer_map by_id; /* (engine) open */
    struct transfer_map live;  /* (transfer) */
    uint32_t *free_slots;      /* (engine) [n_free], a stack */
    uint32_t n_free;
    struct sender_reader *readers; /* (transfer) [readers_max] */
    uint32_t n_closing;            /* (transfer) leases that wait for their last read */
    uint64_t now_ns;               /* (transfer) of this round */
    bool is_copying;               /* (transfer) a read of this round waits for the device */
    void (*notify)(void *arg);
    void *notify_arg;
    _Atomic uint64_t bytes_sent;
};

/* NULL: it is not admitted. */
struct sender_reader *sender_reader_find(struct kv_sender *sender, uint64_t incarnation);
/* When there is no place for it here or in the transport, the log says so. */
void sender_reader_admit(struct kv_sender *sender, const struct transport_address *address);
/* Those of closing leases whose last read is late. */
void sender_readers_cut_off_silent(struct kv_sender *sender, uint64_t now_ns);
