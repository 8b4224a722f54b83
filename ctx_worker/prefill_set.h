/*
 * prefill_set - the slots of a context worker, found by request id, by stream, by number in held_transfers, or by schedule id.
 *
 * A slot that computes or is sealed is live and has its prompt. A closing one is only a transfer that its reader may still read.
 *
 * Bound: slots_max. The finders return NULL where there is none.
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/ctx_stats.h"
#include "ctx_worker/prefill.h"
#include "engine/block_owners.h"

struct prefill_set {
    uint32_t n;
    struct prefill *prefills; /* [n] */
};

MUST_CHECK enum status prefill_set_init(struct prefill_set *set, const struct prefill_home *home);
/* No slot may be live. A zeroed set is fine. */
void prefill_set_finish(struct prefill_set *set, const struct prefill_home *home);

struct prefill *prefill_set_find_free(const struct prefill_set *set);
struct prefill *prefill_set_find_request(const struct prefill_set *set, const char *request_id);
struct prefill *prefill_set_find_stream(const struct prefill_set *set, const void *stream);
struct prefill *prefill_set_find_scheduled(const struct prefill_set *set, uint32_t schedule_id);
struct prefill *prefill_set_find_held(const struct prefill_set *set, uint64_t held_number);
struct prefill *prefill_set_find_closing(const struct prefill_set *set,
                                         const struct transfer_id *id);

/* When the first lease ends by itself; DEADLINE_NONE: none does. */
uint64_t prefill_set_next_limit_ns(const struct prefill_set *set);
uint64_t prefill_set_n_left(const struct prefill_set *set); /* tokens to compute */
/* Computing, sealed and closing. */
void prefill_set_count(const struct prefill_set *set, struct ctx_engine_stats *stats);
/* Marks the blocks that the slots hold or keep fenced. */
void prefill_set_own(const struct prefill_set *set, struct block_owners *owners);
