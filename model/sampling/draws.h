/*
 * draws - computes one step of an engine: a forward pass, then the sampler on the wanted rows of logits.
 *
 *                         device that finds candidates (forward_finds)          other device
 *     host sends          penalties, 12 bytes a token                           nothing
 *     device computes     logits, then a row's 256 best, sums and top           logits
 *     host receives       3 KiB a row                                           whole rows, unless they are in its memory
 *     host draws from     the 256 best (candidates.h)                           candidates that it selects itself
 *     host fetches a row  if u or a filter reaches beyond the 256 best          -
 *
 * A whole row is also fetched if more than FORWARD_PENALTIES_MAX of its tokens have penalties, or only some are allowed (also by a mask). This depends only on a
 * request and its tokens, never on the batch, and so do the bits of a token and its log-probabilities.
 *
 * A row with a NaN, or with a largest logit that is not finite, has no token: the sampler does not get it. A device
 * reports this in its sums, and the row is fetched to name the logit. Where a request's rules leave no token, its draw has none
 * either: INVALID_ARGUMENT, CONSTRAINT_UNMET.
 *
 * Thread: the one of the forward pass.
 */
#pragma once

#include "model/forward/forward.h"
#include "model/sampling/sampler.h"

struct draws;

/* forward and kernels (the host's) are borrowed. NO_MEMORY. */
MUST_CHECK enum status draws_create(struct forward *forward, const struct kernels *kernels,
                                    struct draws **draws_out);
void draws_destroy(struct draws *draws); /* NULL is fine */
/* As sampler_set_ends. */
void draws_set_ends(struct draws *draws, const uint32_t *ids, uint32_t n);
/* As sampler_set_suppressed. */
void draws_set_suppressed(struct draws *draws, const uint32_t *ids, uint32_t n);

/* As forward_run, and draws a token for each sequence that wants logits. draws_inout [count of wants_logits], in the order
 * of the sequences, gets tokens and a status each: logits that are not finite give no token. Sets the wishes of sequences.
 * DEVICE_LOST: neither tokens nor any block of a sequence may be used. */
MUST_CHECK enum status draws_run(struct draws *draws, struct forward_sequence *sequences,
                                 uint32_t n_sequences, uint32_t n_contexts,
                                 struct draw *draws_inout);

/* Rows of a step, one after the other, of one sequence: of its last known token, and of those that were guessed behind it. */
struct draws_rows {
    struct draw *list; /* [n] */
    uint32_t n;        /* 1 or more */
    uint32_t n_drawn;  /* out */
};

/* As draws_run, on a device that does not find candidates, of sequences that want no logits and keep their rows: runs has as many
 * rows as each sequence has tokens. Draws from the rows of a run while each drawn token is the one that its draw knows behind its
 * own (tokens[n_tokens]): at least one, of which only the last may have no token. A product has as many rows as a step may
 * have sequences. DEVICE_LOST. */
MUST_CHECK enum status draws_check(struct draws *draws, const struct forward_sequence *sequences,
                                   uint32_t n_sequences, uint32_t n_contexts,
                                   struct draws_rows *runs);

/* Writes the error sentence of a draw without a token. */
void draw_say_fault(const struct draw *draw, struct error *error);

/* Counts since the start: rows that were fetched whole from a device that finds candidates, and
 * rows without a token. */
uint64_t draws_n_fetched(const struct draws *draws);
uint64_t draws_n_not_finite(const struct draws *draws);
