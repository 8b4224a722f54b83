/*
 * attend - computes attention of up to ROWS_MAX query rows that use the same kv head, over a range of keys.
 *
 * Keys are computed in tiles of TILE_KEYS at fixed positions. A running result ends at every multiple of RANGE_KEYS,
 * and results are merged in order. The work on a row depends only on its own position. So a row has the same bits in
 * a tile of one row or of ninety-six, in the context and in the generation phase, and whether the ranges are computed
 * one after another or in parallel.
 *
 *     source   finds K and V of a tile
 *     tile     scores = Q K, one sum a score, dims in order; out += P V, keys in order
 *     score    caps, biases and masks, applied to the scores in between
 *
 * Slots after the last key are read as zeros, so that results do not depend on the cache's contents there.
 *
 * Thread: a scratch belongs to one running task.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

/* One copy for each instruction set. */
#define attend_partial_floats ISA(attend_partial_floats)
#define attend_partial_at     ISA(attend_partial_at)
#define attend_init           ISA(attend_init)
#define attend_range          ISA(attend_range)
#define attend_clear          ISA(attend_clear)
#define attend_merge          ISA(attend_merge)

size_t attend_partial_floats(uint32_t head_dim, size_t n_rows);
/* Lays out a partial of n_rows in memory, which has attend_partial_floats floats. */
struct partial attend_partial_at(float *memory, uint32_t head_dim, size_t n_rows);

/* Finds the block's rows and keys, and loads Q. staged: see kv_update_step.h. */
void attend_init(const struct attention_call *call, const struct row_block *block,
                 const char *staged, const struct attend_scratch *scratch,
                 struct attend *attend_out);

/* Attends to the keys of one range (RANGE_KEYS each) and writes partial. Rows that see no key there stay empty. */
void attend_range(const struct attend *attend, uint32_t range, struct partial *partial);

void attend_clear(uint32_t n_rows, uint32_t head_dim, struct partial *partial);
/* Merges next into total. The keys of next come after those of total. */
void attend_merge(uint32_t n_rows, uint32_t head_dim, const struct partial *next,
                  struct partial *total);
