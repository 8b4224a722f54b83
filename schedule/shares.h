/*
 * shares - what each of those who share a worker has of it, whichever tenants they ask for: of a context worker's
 * callers, by which a caller's share is bounded.
 *
 * Bounds: shares_max; one is forgotten with its last item, so that as many as items are enough.
 *
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct share {
    uint64_t id;
    uint32_t n_items; /* that belong to it, waiting or not; 0: nobody's row */
    uint32_t n_waiting, n_sequences;
    uint64_t n_blocks; /* that its sequences come to, as if nothing was shared */
    uint64_t skipped;  /* in the look of that number it had its share already */
};

struct shares {
    uint32_t shares_max, n;
    struct share *all; /* [shares_max] */
};

MUST_CHECK enum status shares_init(struct shares *shares, uint32_t shares_max);
void shares_finish(struct shares *shares); /* a zeroed one is fine */

/* One item more; returns the index of its row. */
uint32_t shares_join(struct shares *shares, uint64_t id);
void shares_leave(struct shares *shares, uint32_t index);
/* NULL: it has no items. */
const struct share *shares_find(const struct shares *shares, uint64_t id);
