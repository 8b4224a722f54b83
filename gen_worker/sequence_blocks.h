/*
 * sequence_blocks - the blocks of a sequence: it takes them with what the prefix cache has, keeps them for later
 * requests, and gives them back.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"

/* PAUSED -> RESERVED: with so many blocks, those in the prefix cache included, of which it tells the schedule.
 * NO_BLOCKS: nothing changed. */
MUST_CHECK enum status sequence_take_blocks(struct sequence *sequence, const struct gen_home *home,
                                            uint32_t n_blocks, uint64_t now_ns);
/* So many blocks in all, as block_table_grow. NO_BLOCKS: as before. */
MUST_CHECK enum status sequence_grow(struct sequence *sequence, uint32_t n_blocks);
/* The first n blocks that the prefix cache might have of what it knows. */
uint32_t sequence_lookup_blocks(const struct sequence *sequence);
/* LOCAL_PREFILL or DECODING -> PAUSED, as the schedule has said: gives its blocks back. */
void sequence_pause(struct sequence *sequence, const struct gen_home *home);
/* For the prefix cache: the prompt's whole blocks, or those of all tokens, whose KV is known to be right; of what was generated
 * only where prompts would have the same bits (forward_phases_agree). */
void sequence_keep_prompt(struct sequence *sequence, const struct gen_home *home);
void sequence_keep_all(struct sequence *sequence, const struct gen_home *home);
/* Nothing of it that was not there before stays in the prefix cache. */
void sequence_forget(struct sequence *sequence, const struct gen_home *home);
/* Its tokens rest, or rested, on KV of that incarnation's. */
bool sequence_has_used(const struct sequence *sequence, uint64_t incarnation);
