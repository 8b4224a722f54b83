/*
 * held_transfers - the sealed transfers that a reader may commit. The thread that a commit reaches answers it at once, even
 * during a step of the engine.
 *
 *     engine   put at the seal ------------> end, before a block of it is given back -----> drop, when it is quiet
 *     others             grant: it is here,                                 CANCELLED       NOT_HELD
 *                        so its blocks were held from the first event until now
 *
 * So an answer is as fast on a machine that needs a minute for a step, and a reader's timeout for it (commit_limit_ms) need not
 * grow with the work. A transfer is granted once: then it is removed from here, and the engine gets its number. A reader treats
 * NOT_HELD for an open stream as a contradiction (gen_worker/trust.h), and it may not know yet that the stream has ended. So the
 * answer is CANCELLED until the sender is quiet.
 *
 * Bounds: n_max, the engine's slots; nothing is allocated after init.
 * Thread: init and finish on one; put, end and drop on the engine's; grant and count from any.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/transport/transport.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct held_transfer {
    uint64_t number; /* 0: a free place */
    struct transfer_id id;
    uint64_t kv_bytes; /* that cross */
    bool has_ended;
};

struct held_transfers {
    uint64_t incarnation; /* this worker's, which holds them */
    pthread_mutex_t lock;
    uint32_t n_max;
    struct held_transfer *places; /* [n_max]; NULL: not made */
    uint64_t n_put;               /* ever, as the next */
    uint64_t n_granted, n_refused;
};

MUST_CHECK enum status held_transfers_init(struct held_transfers *held, uint64_t incarnation,
                                           uint32_t n_max);
void held_transfers_finish(struct held_transfers *held); /* a zeroed one is fine */

/* Returns its number, never 0 and never used twice. At most n_max at a time. */
uint64_t held_transfers_put(struct held_transfers *held, const struct transfer_id *id,
                            uint64_t kv_bytes);
/* Both are also fine after a grant. */
void held_transfers_end(struct held_transfers *held, uint64_t number);
void held_transfers_drop(struct held_transfers *held, uint64_t number);

struct held_commit {
    struct transfer_id id;
    uint64_t kv_bytes;    /* that the reader has read */
    uint64_t incarnation; /* of the worker that it is sent to */
};

/* STALE_PEER, NOT_HELD, CANCELLED: error says why, and the log does. */
MUST_CHECK enum status held_transfers_grant(struct held_transfers *held,
                                            const struct held_commit *commit, struct error *error,
                                            uint64_t *number_out);
void held_transfers_count(struct held_transfers *held, uint64_t *granted_out,
                          uint64_t *refused_out);
