/*
 * merges - which two neighbouring tokens become one, and in what order.
 *
 * Open addressing over 16-byte slots, at most five eighths full, so that a look-up is mostly one
 * cache line. Rank 0 merges first.
 *
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct field;
struct vocab;

#define MERGE_RANK_NONE UINT32_MAX

struct merge {
    uint32_t left; /* TOKEN_NONE: free */
    uint32_t right;
    uint32_t rank;
    uint32_t id; /* what they become */
};

struct merges {
    struct merge *slots;
    uint32_t slot_mask;
};

/* Reads model.merges: "a b" or ["a", "b"], or ["a", "b", rank], by which merges may have equal ranks. A pair that comes twice has its later rank. n_prefix: as many
 * bytes of the right one are not in what they become (continuing_subword_prefix). CORRUPT, UNSUPPORTED
 * (too many): error names the field. NO_MEMORY. */
MUST_CHECK enum status merges_init(struct merges *merges, const struct field *merges_field,
                                   const struct vocab *vocab, size_t n_prefix, struct error *error);
void merges_finish(struct merges *merges);

/* The merge of a pair; its rank is MERGE_RANK_NONE when there is none. */
const struct merge *merges_find(const struct merges *merges, uint32_t left, uint32_t right);
