/*
 * handover_set - the hand-overs of a generation worker. It passes messages of context workers to them by prefill handle, and
 * events of the receiver by transfer id.
 *
 * A message for a hand-over that is not live is late, and is dropped.
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
/* No hand-over may be live. A zeroed set is fine. */
void handover_set_finish(struct handover_set *set, const struct gen_home *home);

struct handover *handover_set_free_slot(struct handover_set *set); /* NULL: none */
uint32_t handover_set_n_free(const struct handover_set *set);
/* Closed hand-overs whose blocks are fenced. */
uint32_t handover_set_n_quarantined(const struct handover_set *set);

/* Marks the blocks that closed hand-overs keep fenced. */
void handover_set_own(const struct handover_set *set, struct block_owners *owners);

/* DESCRIBED, PREFILL_EVENT, PREFILL_END or COMMIT_RESULT. */
void handover_set_on_message(struct handover_set *set, const struct gen_home *home,
                             const struct gen_message *message, uint64_t now_ns);
/* Takes the events of the receiver. */
void handover_set_take_events(struct handover_set *set, const struct gen_home *home,
                              uint64_t now_ns);
