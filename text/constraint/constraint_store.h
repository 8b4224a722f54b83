/*
 * constraint_store - the compiled constraints that were used last, by kind and text.
 *
 *     find_or_reserve -> FOUND: a copy of it
 *                     -> RESERVED: compile it, then put it, or give the place up; others who ask for it wait
 *                     -> FULL: all places are being compiled into: compile it, and keep it nowhere
 *
 * A copy takes as long as 10 ms. It is made without the lock, one at a time of a text.
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

/* The caller's own, with all that the library has computed for it: a change of one is none of another. */
struct store_copy {
    LlgMatcher *matcher;
    size_t n_bytes; /* that it takes */
};

/* n_places: 1 or more. NO_MEMORY. */
MUST_CHECK enum status constraint_store_create(uint32_t n_places,
                                               struct constraint_store **store_out);
void constraint_store_destroy(struct constraint_store *store); /* NULL is fine */

/* Waits while another call compiles the same. id_out: of the text, for put and give_up; 0 if FULL. copy_out: if FOUND. TIMED_OUT, CANCELLED (is_over), NO_MEMORY. */
MUST_CHECK enum status constraint_store_find(struct constraint_store *store,
                                             const struct store_key *key,
                                             const struct store_wait *wait,
                                             enum store_answer *answer_out, uint64_t *id_out,
                                             struct store_copy *copy_out);
/* The matcher becomes the store's. */
void constraint_store_put(struct constraint_store *store, uint64_t id, LlgMatcher *take_matcher,
                          struct store_copy *copy_out);
void constraint_store_give_up(struct constraint_store *store, uint64_t id);
/* Frees all that are compiled and not being copied. */
void constraint_store_clear(struct constraint_store *store);
