/*
 * handover_set - the hand-overs of one generation worker, and where what concerns them arrives: from
 * context workers by prefill handle, from the receiver by transfer id.
 *
 * What names none that is live is late, and dropped.
 *
 * Bounds: prefills_max, each until its prefill_end, its QUIET and its commit's result have come.
 * Thread: the engine's.
 */
#pragma once

#include "engine/block_owners.h"
#include "gen_worker/sequence_handover.h"

struct handover_set {
    uint32_t n;
    struct handover *handovers; /* [n] */
    uint64_t next_id;           /* of prefill handles */
};

MUST_CHECK enum status handover_set_init(struct handover_set *set, const struct gen_home *home);
/* Nothing may run any more. A zeroed one is fine. */
void handover_set_finish(struct handover_set *set, const struct gen_home *home);

struct handover *handover_set_free_slot(struct handover_set *set); /* NULL: none */
uint32_t handover_set_n_free(const struct handover_set *set);
/* Closed ones whose blocks are fenced. */
uint32_t handover_set_n_quarantined(const struct handover_set *set);

/* Marks the blocks that a closed one keeps fenced. */
void handover_set_own(const struct handover_set *set, struct block_owners *owners);

/* DESCRIBED, PREFILL_EVENT, PREFILL_END or COMMIT_RESULT. */
void handover_set_on_message(struct handover_set *set, const struct gen_home *home,
                             const struct gen_message *message, uint64_t now_ns);
/* Takes what the receiver has to say. */
void handover_set_take_events(struct handover_set *set, const struct gen_home *home,
                              uint64_t now_ns);
