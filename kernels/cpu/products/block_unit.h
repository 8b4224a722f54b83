/*
 * block_unit - a panel of blocks (block_panel.h) times sixteen tokens with the matrix unit (vector/amx.h): the bits of block_tiles.h.
 *
 * The unit takes both as they are: 64 bytes of a panel are four elements of sixteen rows, and a part of x has its high bytes apart from
 * the low ones. It stores the sums of a group while vectors add those of the group before to y, which stays in registers.
 */
#pragma once

#include "kernels/cpu/products/block_tiles.h"

#ifdef HAS_AMX_INT8

#include "kernels/cpu/vector/amx.h"

#ifndef HAS_BYTES16
#error "the unit multiplies bytes"
#endif

enum { UNIT_TOKENS = 16 };

/* Of a group, with high bytes of x and with low ones. */
struct unit_sums {
    _Alignas(64) int32_t high[UNIT_TOKENS][LANES], low[UNIT_TOKENS][LANES];
};

/* The sums of the group at element k. Tiles have rows of as many bytes as a group has elements: amx_start. */
INLINE void unit_group(const bool is_int8, const struct block_panel *panel,
                       const struct token_chunk *chunk, uint32_t k, struct unit_sums *sums_out)
{
    const uint8_t *x = (const uint8_t *)chunk->x.counts + k / PART * BYTES16_PART_BYTES + k % PART;
    const size_t stride = 2 * chunk->x.stride;
    _tile_loadd(6, panel->bytes + (size_t)k * LANES, BYTES16_STEP_BYTES);
    if (!is_int8) {
        _tile_zero(0);
        _tile_loadd(4, x, stride);
        _tile_dpbsud(0, 4, 6);
        _tile_stored(0, sums_out->high, sizeof sums_out->high[0]);
    }
    _tile_zero(1);
    _tile_loadd(5, x + BYTES16_PART, stride);
    _tile_dpbsud(1, 5, 6);
    _tile_stored(1, sums_out->low, sizeof sums_out->low[0]);
}

/* y of sixteen tokens and sixteen rows += the sums of group g. */
INLINE void unit_add(const uint32_t group, const bool has_offsets, const bool is_int8,
                     const struct block_panel *panel, const struct token_chunk *chunk, uint32_t g,
                     const struct unit_sums *sums, vec y[UNIT_TOKENS])
{
    const float *scales = chunk->x.scales + g * group / PART;
    const size_t scale_stride = chunk->x.stride / PART;
    UNROLL
    for (uint32_t m = 0; m < UNIT_TOKENS; m++) {
        __m512i sum = _mm512_load_si512(sums->low[m]);
        if (!is_int8)
            sum = _mm512_add_epi32(bytes16_move_up(_mm512_load_si512(sums->high[m])), sum);
        y[m] = group_added(has_offsets, panel, g, sum, scales[m * scale_stride], chunk->terms[m][g],
                           y[m]);
    }
}

/* y of sixteen tokens and sixteen rows += n elements. */
INLINE void unit_run(const uint32_t group, const bool has_offsets, const bool is_int8,
                     const struct block_panel *panel, const struct token_chunk *chunk, uint32_t n,
                     sixteen *y_out)
{
    const uint32_t n_groups = n / group;
    struct unit_sums sums[2];
    vec y[UNIT_TOKENS];
    UNROLL
    for (uint32_t m = 0; m < UNIT_TOKENS; m++)
        y[m] = vec_load(y_out[m]);
    amx_settle(chunk->x.counts);
    unit_group(is_int8, panel, chunk, 0, &sums[0]);
    for (uint32_t g = 1; g < n_groups; g++) {
        unit_group(is_int8, panel, chunk, g * group, &sums[g % 2]);
        unit_add(group, has_offsets, is_int8, panel, chunk, g - 1, &sums[(g - 1) % 2], y);
    }
    unit_add(group, has_offsets, is_int8, panel, chunk, n_groups - 1, &sums[(n_groups - 1) % 2], y);
    UNROLL
    for (uint32_t m = 0; m < UNIT_TOKENS; m++)
        vec_store(y_out[m], y[m]);
}

#define UNIT(group, has_offsets)                                                                   \
    static __attribute__((noinline)) void unit_##group##_##has_offsets(                            \
        const struct block_panel *panel, const struct token_chunk *chunk, uint32_t n,              \
        sixteen *y_out)                                                                            \
    {                                                                                              \
        if (chunk->is_int8)                                                                        \
            unit_run(group, has_offsets, true, panel, chunk, n, y_out);                            \
        else                                                                                       \
            unit_run(group, has_offsets, false, panel, chunk, n, y_out);                           \
    }
UNIT(16, 0)
UNIT(16, 1)
UNIT(32, 0)
UNIT(32, 1)

typedef void unit_function(const struct block_panel *, const struct token_chunk *, uint32_t,
                           sixteen *);

static unit_function *unit_of(enum dtype dtype)
{
    static unit_function *const UNITS[2][2] = {{unit_16_0, unit_16_1}, {unit_32_0, unit_32_1}};
    return UNITS[block_group(dtype) == PART][blocks_have_offsets(dtype)];
}

#endif
