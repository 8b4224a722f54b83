/*
 * shares - what each sharer of a worker uses, over all its tenants. The callers of a context worker are its
 * sharers; their use is bounded.
 *
 * Bounds: shares_max; a sharer is forgotten with its last item, so there are never more than items.
 *
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct share {
    uint64_t id;
    uint32_t n_items; /* items of the sharer, waiting or not; 0: a free row */
    uint32_t n_waiting, n_sequences;
    uint64_t n_blocks; /* of its sequences, as if no block was shared */
    uint64_t skipped;  /* number of the last search in which it had used up its share */
};

struct shares {
    uint32_t shares_max, n;
    struct share *all; /* [shares_max] */
};

MUST_CHECK enum status shares_init(struct shares *shares, uint32_t shares_max);
void shares_finish(struct shares *shares); /* all zeros is fine */

/* Adds an item; returns the index of the sharer's row. */
uint32_t shares_join(struct shares *shares, uint64_t id);
void shares_leave(struct shares *shares, uint32_t index);
/* NULL: the sharer has no items. */
const struct share *shares_find(const struct shares *shares, uint64_t id);
