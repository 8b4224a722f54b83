/*
 * attend_whole - the context paths that keep the scores of a block's rows, all keys at once: PATH_UNFUSED
 * as many rows as pay, in memory; PATH_SHORT so few rows and keys that they stay in the second-level
 * cache. One maximum and one sum a row, where PATH_FLASH has running ones.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define attend_whole ISA(attend_whole)

enum { UNFUSED_ROWS = 36, SHORT_ROWS = 12 }; /* multiples of TILE_ROWS with AVX-512 */

static inline uint32_t whole_keys(uint32_t kv_len)
{
    return (kv_len + TILE_KEYS - 1) / TILE_KEYS * TILE_KEYS;
}

/* All keys of the block into total. */
void attend_whole(const struct attend *attend, struct partial *total);
