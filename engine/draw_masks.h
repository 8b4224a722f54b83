/*
 * draw_masks - the masks of a step's draws: which tokens the constraints of its requests allow.
 *
 *     clear -> add (before each draw that has a constraint) -> make: computes them, by all compute threads -> the draws
 *
 * What a constraint has no token for gets an empty mask, and a sentence.
 *
 * Bounds: rows_max masks of a bit a token; nothing is allocated by a step (but by the library, while it computes a mask).
 *
 * Thread: the engine's, with the thread pool under it.
 */
#pragma once

#include "base/status.h"
#include "base/thread_pool.h"

#include <stdint.h>

struct constraint;
struct draw_masks;

/* threads are borrowed; NULL: the engine's computes all. NO_MEMORY. */
MUST_CHECK enum status draw_masks_create(uint32_t rows_max, uint32_t vocabulary,
                                         struct thread_pool *threads,
                                         struct draw_masks **masks_out);
void draw_masks_destroy(struct draw_masks *masks); /* NULL is fine */

/* What was returned before is used no longer. */
void draw_masks_clear(struct draw_masks *masks);
/* n_back: the mask before its last n_back accepted tokens, accepted[0 .. n_back - 1], which it has again afterwards. The constraint is
 * used until make, and is in one row. The mask, filled by make, is good until clear. */
const uint32_t *draw_masks_add(struct draw_masks *masks, struct constraint *constraint,
                               const uint32_t *accepted, uint32_t n_back);
/* A mask of one token. */
const uint32_t *draw_masks_add_only(struct draw_masks *masks, uint32_t token_id);
void draw_masks_make(struct draw_masks *masks);
/* Why that mask is empty; NULL: it is not. Good until clear. */
const char *draw_masks_fault(const struct draw_masks *masks, const uint32_t *mask);
