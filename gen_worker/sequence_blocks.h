/*
 * sequence_blocks - the blocks of a sequence: it takes them with what the prefix cache has, keeps them for later
 * requests, and gives them back.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"
#include "schedule/schedule.h"

/* PAUSED -> RESERVED: takes the blocks for the admission's tokens, first those in the prefix cache, and tells the schedule how
 * many these are. Of layers with a window it takes those that its next query sees: if it may cross and wants to, the one behind
 * the prompt, which a context worker computes. NO_BLOCKS: the pool has fewer blocks than the schedule counted on, or others
 * hold fewer of its prefix; nothing changed. */
MUST_CHECK enum status sequence_take_blocks(struct sequence *sequence, const struct gen_home *home,
                                            const struct schedule_admission *admission,
                                            bool may_cross, uint64_t now_ns);
/* Before a step computes n_tokens of n_known: takes the blocks for them. NO_BLOCKS: none was taken. */
MUST_CHECK enum status sequence_prepare(struct sequence *sequence, const struct gen_home *home,
                                        uint32_t n_tokens, uint32_t n_known);
/* After a step, of a sequence that goes on: keeps what a window has passed, gives it back, and takes what the next query sees. */
void sequence_settle_blocks(struct sequence *sequence, const struct gen_home *home);
/* How many leading blocks of its known tokens the prefix cache may give. */
uint32_t sequence_lookup_blocks(const struct sequence *sequence);
/* LOCAL_PREFILL or DECODING -> PAUSED, as the schedule has decided: gives its blocks back. */
void sequence_pause(struct sequence *sequence, const struct gen_home *home);
/* Adds whole blocks to the prefix cache: those of the prompt, or of all tokens with KV. Generated tokens are added only where a
 * prompt would have the same bits (forward_phases_agree). */
void sequence_keep_prompt(struct sequence *sequence, const struct gen_home *home);
void sequence_keep_all(struct sequence *sequence, const struct gen_home *home);
/* Where its next chunk should end, so that a snapshot of a recurrent state can be kept there: the schedule is told. */
void sequence_cut(struct sequence *sequence, const struct gen_home *home);
/* After tokens were computed or have arrived: keeps a snapshot of a recurrent state, if one is due. */
void sequence_keep_snapshot(struct sequence *sequence, const struct gen_home *home);
/* Removes its blocks from the prefix cache, but for those that it found there. */
void sequence_forget(struct sequence *sequence, const struct gen_home *home);
/* Its tokens depend on KV from that incarnation. */
bool sequence_has_used(const struct sequence *sequence, const struct gen_home *home,
                       uint64_t incarnation);
