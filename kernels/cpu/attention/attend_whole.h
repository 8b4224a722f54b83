/*
 * attend_whole - the context paths that store the scores of a block's rows for all keys at once. PATH_UNFUSED
 * stores many rows, in memory; PATH_SHORT stores so few rows and keys that they stay in the L2 cache. A row has
 * one maximum and one sum; PATH_FLASH has running ones.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define attend_whole ISA(attend_whole)

enum { UNFUSED_ROWS = 36, SHORT_ROWS = 12 }; /* multiples of TILE_ROWS with AVX-512 */

static inline uint32_t whole_keys(uint32_t kv_len)
{
    return (kv_len + TILE_KEYS - 1) / TILE_KEYS * TILE_KEYS;
}

/* Attends to all keys of the block and writes total. */
void attend_whole(const struct attend *attend, struct partial *total);
