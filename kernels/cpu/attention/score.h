/*
 * score - changes a row's scores between Q K and the softmax, in layers that need it: soft cap, ALiBi, explicit and
 * bucketed biases, masks that come with the step, draft trees.
 */
#pragma once

#include "kernels/cpu/attention/query.h"

#define score_needed REST(score_needed)
#define score_change REST(score_change)

/* Whether the scores of a block need changes. False: they are plain scores of an interval of keys. */
bool score_needed(const struct attention_call *call, const struct row_block *block);

/* scores: [TILE_KEYS] of the keys from tile_start on. Changes the keys first .. end - 1, counted from
 * tile_start. A key that the row does not see becomes -inf. */
void score_change(const struct attention_call *call, const struct row_block *block,
                  const struct query_row *row, uint32_t tile_start, uint32_t first, uint32_t end,
                  float *scores);
