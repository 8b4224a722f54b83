/*
 * draft - guesses the next tokens of a reply (prompt lookup), so that one pass checks several.
 *
 *     known   ... a b c d e f ... a b c       the last tokens stand before, too: d e f may come again
 *     pass    c | d e f                       the last known token, and the draft: a token is drawn behind each
 *     drawn     d e x                         x is not the draft's: d e x are the next tokens, what is behind is forgotten
 *
 * So tokens and their bits are those of passes without drafts, if a token has the same bits in both phases (forward_phases_agree).
 *
 * How many tokens are guessed follows from what a further row of a pass takes (draft_pace) and from how often a sequence's guesses
 * were right (draft_luck): the k-th is worth its row if p^k, the chance that it and all before it are right, is above the row's time
 * in parts of the pass, for each sequence that the pass serves.
 *
 * Thread: the engine's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define DRAFT_LENGTH_MAX 16u /* of one sequence in a pass */
#define DRAFT_STEP_MAX   64u /* of all */

/* What follows the latest place at which the last tokens, two to eight of them and as many as there are, stand before. Returns
 * where it begins; *n_out, up to n_max, are known from there on; 0: there is none. */
uint32_t draft_find(const uint32_t *tokens, uint32_t n_tokens, uint32_t n_max, uint32_t *n_out);

/* Times of passes that decode alone. All zeros at the start. */
struct draft_pace {
    double pass_ns; /* of a pass without drafts, for n_sequences */
    double row;     /* a further row, in parts of that; 0: not measured */
    uint32_t n_sequences;
    uint32_t n_drafted; /* passes with drafts since one without */
    uint32_t n_plain;   /* the reverse */
    uint32_t wait; /* passes until a try, where a guess takes more than a pass; 0: it does not */
    /* A draft model guesses; set once. Before a try it computes what it has not seen, so tries become rare where they bring nothing. */
    bool is_model;
};

/* n_rows: those of drafts. */
void draft_pace_took(struct draft_pace *pace, uint32_t n_sequences, uint32_t n_rows,
                     uint64_t step_ns);
/* The next pass should have no drafts: there is no pass of so many sequences to compare with, or it is long ago. */
bool draft_pace_is_due(const struct draft_pace *pace, uint32_t n_sequences);

/* Of a sequence. All zeros at the start. */
struct draft_luck {
    double share;                 /* of guesses that were right */
    uint32_t n_passes, next_pass; /* where guesses are not worth it, one is tried then */
    uint32_t wait;                /* passes between two tries; 0: the first */
    bool has_share;
};

/* How many tokens are worth a guess in a pass for n_sequences; 0: none. Call it once for each pass of the sequence. */
uint32_t draft_luck_length(struct draft_luck *luck, const struct draft_pace *pace,
                           uint32_t n_sequences);
void draft_luck_note(struct draft_luck *luck, uint32_t n_guessed, uint32_t n_right);
