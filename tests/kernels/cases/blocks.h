/*
 * blocks - the cache of a layer group: a pool that ends at a guard page, blocks in random order, and
 * a note of the slots that may be written.
 */
#pragma once

#include "tests/kernels/cases/run.h"

struct case_blocks {
    struct kv_view kv;
    struct guarded memory;
    uint8_t *is_written;                     /* [n_blocks][block_tokens] */
    uint32_t *block_ids[CASE_SEQUENCES_MAX]; /* [n_beams][n_blocks] */
    uint32_t n_blocks[CASE_SEQUENCES_MAX];   /* of one beam */
    uint32_t window;                         /* of the slots; 0: linear */
};

void case_blocks_init(const struct case_data *data, uint32_t group, struct case_blocks *blocks_out);
/* Leaves the memory to the caller. */
void case_blocks_finish(struct case_blocks *blocks);

/* Key index of the cache belongs to the sequence's beam: its slot may be written. */
void case_blocks_note(const struct case_data *data, uint32_t s, uint32_t beam, uint32_t index,
                      struct case_blocks *blocks);
/* No query will see the keys before index end any more: their slots hold NaN from now on. */
void case_blocks_forget(const struct case_data *data, uint32_t s, uint32_t end,
                        struct case_blocks *blocks);
void case_blocks_check(const struct case_data *data, const struct case_blocks *blocks,
                       struct case_result *result);
