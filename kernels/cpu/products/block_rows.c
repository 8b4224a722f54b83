#include "kernels/cpu/products/block_rows.h"

#ifdef __AVX2__

#include "kernels/cpu/products/block_sixteen.h"
#ifndef HAS_BYTES16
#include "kernels/cpu/products/block_take.h"
#endif

#include <assert.h>

#ifdef HAS_BYTES16

/* y of sixteen rows += the sums of the group at element k. */
INLINE __m512 add_group(const enum dtype dtype, const struct rounded16 *x, uint32_t k, __m512i sums,
                        __m512 factor, __m512 offset, __m512 y)
{
    const int32_t x_sum = rounded16_sum(x, k, block_group(dtype));
    const float scale = x->scales[k / PART];
    if (!blocks_have_offsets(dtype))
        sums = _mm512_sub_epi32(sums, _mm512_set1_epi32(block_bias(dtype) * x_sum));
    y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_mul_ps(factor, _mm512_set1_ps(scale)), y);
    if (blocks_have_offsets(dtype))
        y = _mm512_fmadd_ps(offset, _mm512_set1_ps((float)x_sum * scale), y);
    return y;
}

/* Blocks of 32 elements: each has its factors beside its numbers. ahead: where a thread reads next. */
INLINE __m512 multiply_short(const enum dtype dtype, const struct sixteen_rows *rows, uint32_t n,
                             const struct rounded16 *x, const uint8_t *ahead)
{
    const struct step_taker taker = {.x = (const uint8_t *)x->counts};
    const size_t bytes = dtype_block_shape(dtype).bytes;
    __m512 y = _mm512_setzero_ps();
    for (uint32_t part = 0; part < n / PART; part++) {
        __m512i sums[2];
        __m512 factor, offset;
        ask_for(ahead + part * LANES * bytes, LANES * bytes);
        take_steps(true, dtype, rows, part, sums, &taker);
        short_factors(dtype, rows, part * bytes, &factor, &offset);
        y = add_group(dtype, x, part * PART, sums[0], factor, offset, y);
    }
    return y;
}

/* A block of 256 elements, from element k on. ahead: where a thread reads next. */
INLINE __m512 multiply_long(const enum dtype dtype, const struct sixteen_rows *rows, uint32_t k,
                            const struct rounded16 *x, const uint8_t *ahead, __m512 y)
{
    const size_t bytes = dtype_block_shape(dtype).bytes;
    const struct step_taker taker = {.x = (const uint8_t *)(x->counts + k)};
    const uint32_t n_sums = block_group(dtype) == 16 || dtype == DTYPE_Q4_K ? 2 : 1;
    _Alignas(64) float factors[CHUNK_FACTORS * LANES], offsets[CHUNK_FACTORS * LANES];
    long_factors(dtype, rows, factors, offsets);
    for (uint32_t part = 0, i = 0; i < CHUNK / block_group(dtype); i += n_sums) {
        __m512i sums[2];
        const uint32_t n_parts = dtype == DTYPE_Q4_K ? 2 : 1;
        ask_for(ahead + part * 2 * bytes, n_parts * 2 * bytes);
        UNROLL
        for (uint32_t r = 0; r < 2 * n_parts; r++)
            ask_for(rows->at[2 * part + r] + bytes, bytes);
        take_steps(true, dtype, rows, part, sums, &taker);
        part += n_parts;
        UNROLL
        for (uint32_t s = 0; s < n_sums; s++) {
            const size_t at = (size_t)(i + s) * LANES;
            const __m512 offset = blocks_have_offsets(dtype) ? _mm512_load_ps(offsets + at)
                                                             : _mm512_setzero_ps();
            y = add_group(dtype, x, k + (i + s) * block_group(dtype), sums[s],
                          _mm512_load_ps(factors + at), offset, y);
        }
    }
    return y;
}

INLINE void multiply_rows(const enum dtype dtype, const struct gemm *gemm, uint32_t row,
                          const struct rounded16 *x, float y_out[LANES])
{
    const struct block_shape shape = dtype_block_shape(dtype);
    struct sixteen_rows rows;
    __m512 y = _mm512_setzero_ps();
    find_sixteen(dtype, gemm, row, 0, &rows);
    const uint8_t *ahead = rows.at[0] + LANES * (gemm->n_in / shape.elements * (size_t)shape.bytes);
    if (shape.elements == PART)
        y = multiply_short(dtype, &rows, gemm->n_in, x, ahead);
    for (uint32_t k = 0; shape.elements > PART && k < gemm->n_in; k += CHUNK) {
        y = multiply_long(dtype, &rows, k, x, ahead, y);
        ahead += (size_t)LANES * shape.bytes;
        for (uint32_t r = 0; r < LANES; r++)
            rows.at[r] += shape.bytes;
    }
    _mm512_storeu_ps(y_out, y);
}

#else

/* y of eight rows += the sums of the group at element k. */
INLINE __m256 add_group(const enum dtype dtype, const struct rounded16 *x, uint32_t k, __m256i sums,
                        __m256 factor, __m256 offset, __m256 y)
{
    const int32_t x_sum = rounded16_sum(x, k, block_group(dtype));
    const float scale = x->scales[k / PART];
    if (!blocks_have_offsets(dtype))
        sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(block_bias(dtype) * x_sum));
    y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_mul_ps(factor, _mm256_set1_ps(scale)), y);
    if (blocks_have_offsets(dtype))
        y = _mm256_fmadd_ps(offset, _mm256_set1_ps((float)x_sum * scale), y);
    return y;
}

/* Blocks of 32 elements: each has its factors beside its numbers. ahead: where a thread reads next. */
INLINE __m256 multiply_short(const enum dtype dtype, const struct eight_rows *rows, uint32_t n,
                             const struct rounded16 *x, const uint8_t *ahead)
{
    const struct taker taker = {.counts = x->counts};
    const size_t bytes = dtype_block_shape(dtype).bytes;
    __m256 y = _mm256_setzero_ps();
    for (uint32_t part = 0; part < n / PART; part++) {
        __m256i sums[2];
        __m256 factor, offset = _mm256_setzero_ps();
        ask_for(ahead + part * EIGHT * bytes, EIGHT * bytes);
        take_groups(true, dtype, rows, part, sums, &taker);
        part_factors(dtype, rows->at, part * bytes, &factor, &offset);
        y = add_group(dtype, x, part * PART, sums[0], factor, offset, y);
    }
    return y;
}

/* A block of 256 elements, from element k on. */
INLINE __m256 multiply_long(const enum dtype dtype, const struct eight_rows *rows, uint32_t k,
                            const struct rounded16 *x, __m256 y)
{
    const struct taker taker = {.counts = x->counts + k};
    const uint32_t n_sums = block_group(dtype) == 16 || dtype == DTYPE_Q4_K ? 2 : 1;
    _Alignas(32) float factors[CHUNK_FACTORS * EIGHT], offsets[CHUNK_FACTORS * EIGHT];
    take_all_factors(dtype, rows, factors, offsets, EIGHT);
    for (uint32_t part = 0, i = 0; i < CHUNK / block_group(dtype); i += n_sums) {
        __m256i sums[2];
        take_groups(true, dtype, rows, part, sums, &taker);
        part += dtype == DTYPE_Q4_K ? 2 : 1;
        UNROLL
        for (uint32_t s = 0; s < n_sums; s++) {
            const size_t at = (size_t)(i + s) * EIGHT;
            const __m256 offset = blocks_have_offsets(dtype) ? _mm256_load_ps(offsets + at)
                                                             : _mm256_setzero_ps();
            y = add_group(dtype, x, k + (i + s) * block_group(dtype), sums[s],
                          _mm256_load_ps(factors + at), offset, y);
        }
    }
    return y;
}

INLINE void multiply_rows(const enum dtype dtype, const struct gemm *gemm, uint32_t row,
                          const struct rounded16 *x, float y_out[LANES])
{
    const struct block_shape shape = dtype_block_shape(dtype);
    for (uint32_t lane = 0; lane < LANES; lane += EIGHT) {
        struct eight_rows rows;
        __m256 y = _mm256_setzero_ps();
        find_rows(dtype, gemm, row + lane, 0, &rows);
        const uint8_t *ahead = rows.at[0] + LANES * row_bytes_of(dtype, gemm);
        if (shape.elements == PART)
            y = multiply_short(dtype, &rows, gemm->n_in, x, ahead);
        for (uint32_t k = 0; shape.elements > PART && k < gemm->n_in; k += CHUNK) {
            for (uint32_t r = 0; r < EIGHT; r++, ahead += shape.bytes)
                ask_for(ahead, shape.bytes);
            y = multiply_long(dtype, &rows, k, x, y);
            for (uint32_t r = 0; r < EIGHT; r++)
                rows.at[r] += shape.bytes;
        }
        _mm256_storeu_ps(y_out + lane, y);
    }
}

#endif

/* Not inlined: among other types the compiler would run out of registers. */
#define MULTIPLY(type)                                                                             \
    static __attribute__((noinline)) void multiply_##type(                                         \
        const struct gemm *gemm, uint32_t row, const struct rounded16 *x, float y_out[LANES])      \
    {                                                                                              \
        multiply_rows(DTYPE_##type, gemm, row, x, y_out);                                          \
    }
EACH_BLOCK_TYPE(MULTIPLY)

void block_rows_multiply(const struct gemm *gemm, uint32_t row, const struct rounded16 *x,
                         float y_out[LANES])
{
#define NAME(type) multiply_##type,
    static void (*const MULTIPLIES[])(const struct gemm *, uint32_t, const struct rounded16 *,
                                      float *) = {EACH_BLOCK_TYPE(NAME)};
#undef NAME
    assert(row < gemm->n_out);
    MULTIPLIES[gemm->w_dtype - DTYPE_Q8_0](gemm, row, x, y_out);
}

#else
typedef int block_rows_has_nothing_here;
#endif
