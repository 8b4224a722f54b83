/*
 * gen_batch - one forward pass of a generation worker: the work that the schedule proposes, as far as there are blocks for it.
 *
 * Chunks cover prompts and, after a pause, generated tokens. The kernels of prompts then compute the generated tokens with the
 * same bits; where they cannot, init refuses a policy that pauses (forward_phases_agree). Where a context worker drew the first
 * token, a chunk ends with the prompt, so that the first token can be drawn again.
 *
 * Where a step only decodes, a sequence may have a draft (draft.h) behind its last known token, and comes with the chunks.
 *
 * Of a beam search a step computes a token of each running beam, as if each was a sequence.
 *
 * Bounds: sequences_max sequences, batch_tokens + sequences_max tokens; all allocated in init.
 * Thread: the engine's.
 */
#pragma once

#include "engine/draw_masks.h"
#include "gen_worker/sequence.h"
#include "model/sampling/draws.h"
#include "model/sampling/scorer.h"
#include "schedule/schedule.h"

struct gen_result {
    struct sequence
        *sequence; /* NULL: the row of a beam; that of its first beam has the result of all */
    struct computed computed;
    bool keeps_rows;    /* for its scores; */
    uint32_t first_row; /* of the pass, that of its first token */
    /* In a pass with drafts, in place of computed: */
    uint32_t n_drafted, n_checked;  /* n_checked 0: the pass has none */
    const struct computed *checked; /* [n_checked] a token each; all but the last are the draft's */
};

struct gen_batch {
    struct forward *forward;             /* the options' */
    const struct encoder_shape *encoder; /* the model's */
    struct draws *draws;
    struct draw_masks *masks;
    struct scorer *scorer;
    struct forward_sequence *inputs; /* [sequences_max] */
    struct gen_result *results;      /* [sequences_max] */
    struct draw *wanted;             /* [sequences_max], of those whose logits are */
    struct ranked_row *ranked;       /* [sequences_max], of beam searches' among these */
    uint32_t n_wanted;
    struct forward_text *texts; /* [sequences_max] of encoders: computed before the pass */
    uint32_t n_texts;
    uint32_t n;          /* sequences in the pass */
    uint32_t n_contexts; /* of these, chunks, and decodes that ran ahead; they come first */
    uint32_t
        n_decodes; /* of these, decodes: one token each, or those ahead, too, and the next one is drawn */
    uint32_t *order;            /* [sequences_max] of the plan's work: choose_order */
    uint32_t *n_drafts;         /* [sequences_max] of each work of the plan; N_LEFT_OUT */
    struct draws_rows *runs;    /* [sequences_max] of the sequences in a pass with drafts */
    struct draw *draft_list;    /* [sequences_max + DRAFT_STEP_MAX] */
    struct computed *checked;   /* likewise */
    uint32_t n_draft_rows;      /* tokens of drafts in the pass */
    struct drafter_line *lines; /* [sequences_max] with a drafter: those that it guesses for, and */
    uint32_t *line_works;       /* [sequences_max] the work of each */
    bool
        is_timed; /* the pass has no chunk of a prompt: its time says what a token of a reply takes */
    uint32_t n_left_out;   /* the pool had no block for them */
    uint32_t n_beams_more; /* sequences in the pass that are further beams of one before */
    uint32_t n_rows;       /* tokens in the pass */
};

/* INVALID_ARGUMENT: the policy pauses replies, and what differs_by names, if it is not NULL, keeps these from being computed again. */
MUST_CHECK enum status gen_batch_check_pauses(enum schedule_policy policy, const char *differ_by,
                                              struct error *error);
/* UNSUPPORTED: tokens are to be guessed by speculate, if it is not NULL, and without, if it is not NULL, names why they cannot be. */
MUST_CHECK enum status gen_batch_check_drafts(const char *speculate, const char *without,
                                              struct error *error);
MUST_CHECK enum status gen_batch_init(struct gen_batch *batch,
                                      const struct gen_engine_options *options,
                                      struct error *error);
void gen_batch_finish(struct gen_batch *batch); /* a zeroed one is fine */

/* Grows block tables and computes. Sequences stay as they are; results[0 .. n - 1] say what was computed. n is 0: there was
 * nothing to compute. DEVICE_LOST: there are no results. */
MUST_CHECK enum status gen_batch_run(struct gen_batch *batch, const struct gen_home *home,
                                     const struct schedule_batch *plan);
