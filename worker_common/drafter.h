/*
 * drafter - a second, small model that guesses the next tokens of replies (docs/decisions/0064-draft-model.md).
 *
 *     line     the tokens of a reply, prompt first           a b c d e
 *     slot     KV of the draft model for tokens it knows     a b x         the same as far as a b
 *     catch up computes what the slot lacks                      c d e
 *     guess    a pass of the draft model a token                       f g h
 *
 * The KV of a slot is good as far as its tokens are those of the line. So a guess that was wrong, a pause, and the next request of a
 * conversation need nothing else. A line keeps its slot from run to run. A new one takes the slot that has most of it, among those
 * that no line of the run has; of equal ones the one that was used least recently. A slot takes blocks as it grows, in the end those of such
 * slots, and keeps them.
 *
 * A guess is drawn as the reply's token will be: with the same parameters, seed and position. It is only a guess: what is
 * drawn behind it does not depend on it, and whoever has it checks it.
 *
 * Bounds: memory_bytes of KV; all is allocated by create. A run is one pass of up to chunk_tokens tokens to catch up, and up to
 * DRAFTER_GUESSES_MAX passes that guess a token of each line.
 *
 * Thread: the engine's; drafter_layers_done: any.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct drafter;
struct model;
struct model_config;
struct sampling_params;
struct thread_pool;

#define DRAFTER_SALT_MAX    128u
#define DRAFTER_SLOTS_MAX   16u
#define DRAFTER_GUESSES_MAX 16u /* of a line in a run */

struct drafter_options {
    const struct model *model; /* the draft model; borrowed until destroy, as is the next */
    struct thread_pool *threads;
    struct device *device; /* one that reads the host's memory */
    uint32_t block_tokens;
    uint32_t context_tokens; /* of the worker; of the draft model's more are not used */
    uint32_t vocabulary;     /* of the worker's model */
    uint32_t sequences_max;  /* of the worker */
    uint32_t chunk_tokens;
    uint64_t memory_bytes; /* most KV of all slots */
    bool scrubs;           /* blocks that a slot gives are overwritten with zeros */
};

/* What create makes of these. */
struct drafter_sizes {
    uint32_t n_slots, n_blocks;
    uint32_t line_tokens; /* most tokens of a line: behind them nothing is guessed */
    uint64_t kv_bytes, activation_bytes;
};

/* UNSUPPORTED: the model cannot draft: error says why. */
MUST_CHECK enum status drafter_check_model(const struct model_config *config, struct error *error);
/* INVALID_ARGUMENT: memory_bytes has not room for DRAFTER_TOKENS_LEAST tokens, or the draft model's context has not. */
#define DRAFTER_TOKENS_LEAST 128u
MUST_CHECK enum status drafter_plan(const struct drafter_options *options,
                                    struct drafter_sizes *sizes_out, struct error *error);

/* As plan; NO_MEMORY, and what forward_create says. */
MUST_CHECK enum status drafter_create(const struct drafter_options *options, struct error *error,
                                      struct drafter **drafter_out);
void drafter_destroy(struct drafter *drafter); /* NULL is fine */

struct drafter_sizes drafter_sizes(const struct drafter *drafter);

/* Tokens that end a reply, and those that the worker's model never gives: as draws_set_ends and _suppressed. Those that the draft
 * model does not have are left out. Set the second once. NO_MEMORY. */
void drafter_set_ends(struct drafter *drafter, const uint32_t *ids, uint32_t n);
MUST_CHECK enum status drafter_set_suppressed(struct drafter *drafter, const uint32_t *ids,
                                              uint32_t n);

/* Of a reply. */
struct drafter_line {
    uint64_t id;      /* the same in each run, and no other's */
    uint32_t *tokens; /* [n_tokens], with room for n_wanted more, which are written there */
    uint32_t n_tokens;
    uint32_t n_prompt; /* for the penalties */
    const struct sampling_params *params;
    /* [salt_bytes] up to DRAFTER_SALT_MAX, as prefixes have it: a new line finds nothing of those with another one. */
    const void *salt;
    size_t salt_bytes;
    uint32_t n_wanted; /* 0 .. DRAFTER_GUESSES_MAX; 0: it only keeps its slot */
    uint32_t n_out;    /* guesses; fewer than wanted, or none, is no error */
    bool has_failed;   /* the draft model was asked, and its first token is no guess */
};

/* Guesses for n lines, at most the worker's sequences_max. *caught_up_out: some line was only prepared, so the time of the run says nothing of guesses.
 * DEVICE_LOST. */
MUST_CHECK enum status drafter_run(struct drafter *drafter, struct drafter_line *lines, uint32_t n,
                                   bool *caught_up_out);

struct drafter_figures {
    uint64_t caught_up_tokens; /* since the start: computed to catch up, */
    uint64_t kept_tokens;      /* and those that a new line found in its slot */
    uint32_t blocks_held;      /* by slots */
};
struct drafter_figures drafter_figures(const struct drafter *drafter);

/* forward_layers_done of the draft model. Any thread. */
uint64_t drafter_layers_done(const struct drafter *drafter);
