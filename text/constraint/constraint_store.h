/*
 * constraint_store - the compiled constraints that were used last, by kind and text.
 *
 *     find_or_reserve -> FOUND: a copy of it
 *                     -> RESERVED: compile it, then put it, or give the place up; others who ask for it wait
 *                     -> FULL: all places are being compiled into: compile it, and keep it nowhere
 *
 * Bounds: n_places. The one that was not used for longest goes first.
 *
 * Thread: any, at once.
 */
#pragma once

#include "base/status.h"

#include <llguidance.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct constraint_store;

struct store_key {
    int kind;
    const char *bytes; /* borrowed */
    size_t n_bytes;
};

struct store_wait {
    bool (*is_over)(void *arg); /* NULL: never */
    void *arg;
    uint64_t until_ns; /* of clock_now_ns */
};

enum store_answer { STORE_FOUND, STORE_RESERVED, STORE_FULL };

/* n_places: 1 or more. NO_MEMORY. */
MUST_CHECK enum status constraint_store_create(uint32_t n_places,
                                               struct constraint_store **store_out);
void constraint_store_destroy(struct constraint_store *store); /* NULL is fine */

/* Waits while another call compiles the same. id_out: of the text, for put, give_up and forget; 0 if FULL. matcher_out: the caller's
 * own if FOUND. TIMED_OUT, CANCELLED (is_over), NO_MEMORY. */
MUST_CHECK enum status constraint_store_find(struct constraint_store *store,
                                             const struct store_key *key,
                                             const struct store_wait *wait,
                                             enum store_answer *answer_out, uint64_t *id_out,
                                             LlgMatcher **matcher_out);
/* The matcher becomes the store's; returns a copy, the caller's own. */
LlgMatcher *constraint_store_put(struct constraint_store *store, uint64_t id,
                                 LlgMatcher *take_matcher);
void constraint_store_give_up(struct constraint_store *store, uint64_t id);
/* No further copies of it; an id that is no longer there is fine. */
void constraint_store_forget(struct constraint_store *store, uint64_t id);
