/*
 * held_transfers - which sealed transfers a reader may commit: answered at once by the thread that the commit reaches, whatever step
 * the engine is in.
 *
 *     engine   put at the seal ------------> end, before a block of it is given back, whyever -----> drop, when it is quiet
 *     others             grant: it is here,                                          CANCELLED       NOT_HELD
 *                        so its blocks were held from the first event until now
 *
 * So an answer takes no longer on a machine that needs a minute for a step, and a reader's limit for it
 * (commit_limit_ms) belongs to no amount of work. One grant each: what was granted is not here any more, and the engine
 * hears of it by its number. NOT_HELD while the stream is open is a lie in its reader's eyes, which may not have heard yet that
 * the stream has ended: until nothing is on its way from this worker, CANCELLED is the answer.
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
    uint64_t incarnation; /* of the life that holds them */
    pthread_mutex_t lock;
    uint32_t n_max;
    struct held_transfer *places; /* [n_max]; NULL: not made */
    uint64_t n_put;               /* ever, as the next */
    uint64_t n_granted, n_refused;
};

MUST_CHECK enum status held_transfers_init(struct held_transfers *held, uint64_t incarnation,
                                           uint32_t n_max);
void held_transfers_finish(struct held_transfers *held); /* a zeroed one is fine */

/* Its number, never used twice, never 0. No more than n_max at a time. */
uint64_t held_transfers_put(struct held_transfers *held, const struct transfer_id *id,
                            uint64_t kv_bytes);
/* Both fine also when it was granted. */
void held_transfers_end(struct held_transfers *held, uint64_t number);
void held_transfers_drop(struct held_transfers *held, uint64_t number);

struct held_commit {
    struct transfer_id id;
    uint64_t kv_bytes;    /* read by who asks */
    uint64_t incarnation; /* that it means */
};

/* STALE_PEER, NOT_HELD, CANCELLED: error says why, and the log does. */
MUST_CHECK enum status held_transfers_grant(struct held_transfers *held,
                                            const struct held_commit *commit, struct error *error,
                                            uint64_t *number_out);
void held_transfers_count(struct held_transfers *held, uint64_t *granted_out,
                          uint64_t *refused_out);
