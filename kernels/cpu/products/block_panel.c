#include "kernels/cpu/products/block_panel.h"

#include "kernels/blocks.h"
#include "kernels/cpu/products/block_sixteen.h"
#ifndef HAS_BYTES16
#include "kernels/cpu/products/block_take.h"
#include "kernels/cpu/vector/pairs16.h"
#endif

#include <assert.h>

#ifndef __AVX2__

/* ---- one block at a time ---- */

static void take_block(enum dtype dtype, const uint8_t *block, uint32_t first, uint32_t lane,
                       struct block_panel *panel)
{
    const uint32_t n = dtype_block_shape(dtype).elements, group = block_group(dtype);
    const bool has_zero = dtype == DTYPE_Q4_ZERO; /* a panel has it as an offset */
    const int32_t bias = has_zero ? block[4] : block_bias(dtype);
    struct block_numbers numbers;
    block_take_apart(dtype, block, &numbers);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = (first + i) / STEP16 * STEP16_WIDE, place = i % STEP16;
        panel->wide[at + place % 2 * 2 * LANES + 2 * lane + place / 2] =
            (int16_t)(numbers.numbers[i] + bias);
    }
    for (uint32_t i = 0; i < n; i += group) {
        panel->factors[(first + i) / group][lane] = numbers.factors[i / 16];
        if (numbers.has_offsets || has_zero)
            panel->offsets[(first + i) / group][lane] = has_zero
                                                            ? -(numbers.factors[0] * (float)bias)
                                                            : numbers.offsets[i / 16];
    }
}

void block_panel_take(const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n,
                      struct block_panel *panel_out)
{
    const struct block_shape shape = dtype_block_shape(gemm->w_dtype);
    const size_t row_bytes = dtype_array_bytes(gemm->w_dtype, gemm->n_in);
    assert(k % CHUNK == 0 && n <= CHUNK && row < gemm->n_out);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t own = row + lane < gemm->n_out ? row + lane : gemm->n_out - 1;
        const uint8_t *blocks = (const uint8_t *)gemm->w + own * row_bytes;
        for (uint32_t i = 0; i < n; i += shape.elements)
            take_block(gemm->w_dtype, blocks + (k + i) / shape.elements * (size_t)shape.bytes, i,
                       lane, panel_out);
    }
}

#else

#ifdef HAS_BYTES16

/* ---- 32 elements of sixteen rows at a time ---- */

INLINE void take_panel(const enum dtype dtype, const struct gemm *gemm, uint32_t row, uint32_t k,
                       uint32_t n, struct block_panel *panel)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const struct step_taker taker = {.bytes = panel->bytes};
    struct sixteen_rows rows;
    find_sixteen(dtype, gemm, row, k, &rows);
    for (uint32_t part = 0; part < n / PART; part += dtype == DTYPE_Q4_K ? 2 : 1) {
        __m512i sums[2];
        take_steps(false, dtype, &rows, part, sums, &taker);
        if (shape.elements > PART)
            continue;
        __m512 factor, offset;
        short_factors(dtype, &rows, part * (size_t)shape.bytes, &factor, &offset);
        _mm512_store_ps(panel->factors[part], factor);
        if (blocks_have_offsets(dtype))
            _mm512_store_ps(panel->offsets[part], offset);
    }
    if (shape.elements > PART)
        long_factors(dtype, &rows, panel->factors[0], panel->offsets[0]);
}

#else

/* ---- 32 elements of eight rows at a time ---- */

INLINE void take_panel(const enum dtype dtype, const struct gemm *gemm, uint32_t row, uint32_t k,
                       uint32_t n, struct block_panel *panel)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    for (uint32_t lane = 0; lane < LANES; lane += EIGHT) {
        const struct taker taker = {.wide = panel->wide + 2 * (size_t)lane};
        float *factors = panel->factors[0] + lane, *offsets = panel->offsets[0] + lane;
        struct eight_rows rows;
        find_rows(dtype, gemm, row + lane, k, &rows);
        for (uint32_t part = 0; part < n / PART; part += dtype == DTYPE_Q4_K ? 2 : 1) {
            __m256i sums[2];
            take_groups(false, dtype, &rows, part, sums, &taker);
            if (shape.elements > PART)
                continue;
            __m256 factor, offset;
            part_factors(dtype, rows.at, part * (size_t)shape.bytes, &factor, &offset);
            _mm256_store_ps(factors + (size_t)part * LANES, factor);
            if (blocks_have_offsets(dtype))
                _mm256_store_ps(offsets + (size_t)part * LANES, offset);
        }
        if (shape.elements > PART)
            take_all_factors(dtype, &rows, factors, offsets, LANES);
    }
}

#endif

/* Not inlined: among other types the compiler would run out of registers. */
#define TAKE(type)                                                                                 \
    static __attribute__((noinline)) void take_##type(                                             \
        const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n, struct block_panel *panel)  \
    {                                                                                              \
        if (n == CHUNK)                                                                            \
            take_panel(DTYPE_##type, gemm, row, k, CHUNK, panel);                                  \
        else if (dtype_block_shape(DTYPE_##type).elements < CHUNK)                                 \
            take_panel(DTYPE_##type, gemm, row, k, n, panel);                                      \
    }
EACH_BLOCK_TYPE(TAKE)

void block_panel_take(const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n,
                      struct block_panel *panel_out)
{
#define NAME(type) take_##type,
    static void (*const TAKES[])(const struct gemm *, uint32_t, uint32_t, uint32_t,
                                 struct block_panel *) = {EACH_BLOCK_TYPE(NAME)};
#undef NAME
    assert(k % CHUNK == 0 && n <= CHUNK && row < gemm->n_out);
    TAKES[gemm->w_dtype - DTYPE_Q8_0](gemm, row, k, n, panel_out);
}

#endif
