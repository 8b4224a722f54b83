#include "kernels/quantize.h"

#include "kernels/cpu/parallel.h"
#include "kernels/widen_weights.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { WORK_OF_WEIGHT = 8, PIECE = 256 };

/* 0 stands for all of n_out or n_in. */
static const struct format {
    const char *name;
    enum dtype dtype;
    uint32_t scale_rows, scale_columns;
    uint32_t multiple; /* n_in must be a multiple of this */
} formats[] = {
    [QUANTIZE_INT8_ROWS] = {"INT8 by rows", DTYPE_INT8, 1, 0, 1},
    [QUANTIZE_INT8_GROUPS] = {"INT8 by groups", DTYPE_INT8, 1, QUANTIZE_GROUP, QUANTIZE_GROUP},
    [QUANTIZE_E4M3_TENSOR] = {"E4M3 by tensor", DTYPE_E4M3, 0, 0, 1},
    [QUANTIZE_E4M3_BLOCKS] = {"E4M3 by blocks", DTYPE_E4M3, 128, 128, 1},
    [QUANTIZE_MXFP4] = {"MXFP4", DTYPE_E2M1, 1, QUANTIZE_GROUP, QUANTIZE_GROUP},
};

enum status quantized_init(enum quantize_format format, uint32_t n_out, uint32_t n_in,
                           struct quantized *quantized_out, struct error *error)
{
    const struct format *row = &formats[format];
    if (n_out == 0 || n_in == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_out is %u and n_in %u: the matrix has no weights", n_out, n_in);
    if (n_in % row->multiple != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_in is %u: %s needs a multiple of %u columns", n_in, row->name,
                         row->multiple);
    *quantized_out = (struct quantized){
        .dtype = row->dtype,
        .n_out = n_out,
        .n_in = n_in,
        .scale_rows = row->scale_rows ? row->scale_rows : n_out,
        .scale_columns = row->scale_columns ? row->scale_columns : n_in,
    };
    return STATUS_OK;
}

static size_t blocks(uint32_t n, uint32_t block)
{
    return n / block + (n % block != 0);
}

size_t quantized_w_bytes(const struct quantized *quantized)
{
    return quantized->n_out * dtype_array_bytes(quantized->dtype, quantized->n_in);
}

size_t quantized_scales_bytes(const struct quantized *quantized)
{
    return blocks(quantized->n_out, quantized->scale_rows) *
           blocks(quantized->n_in, quantized->scale_columns) *
           (quantized->dtype == DTYPE_E2M1 ? 1 : sizeof(float));
}

/* A block of one matrix: rows first_row .. end_row - 1, and columns likewise. */
struct block {
    enum dtype source_dtype;
    const void *source;
    uint32_t n_in;
    uint32_t first_row, end_row, first_column, end_column;
};

/* NaN if a weight is not finite. */
static float largest_magnitude(const struct block *block)
{
    float largest = 0;
    for (uint32_t o = block->first_row; o < block->end_row; o++)
        for (uint32_t i = block->first_column; i < block->end_column; i++) {
            float w = dtype_load(block->source_dtype, block->source, (size_t)o * block->n_in + i);
            if (!isfinite(w))
                return NAN;
            largest = fmaxf(largest, fabsf(w));
        }
    return largest;
}

/* 2^(floor(log2(largest)) - 2): in E2M1, 4 and 6 have the exponent 2. */
static uint8_t e8m0_scale(float largest)
{
    if (isnan(largest))
        return 255;
    if (largest == 0)
        return 0;
    int exponent = ilogbf(largest) - 2 + 127;
    return (uint8_t)(exponent < 0 ? 0 : exponent);
}

static float store_scale(const struct quantized *quantized, size_t index, float largest)
{
    if (quantized->dtype == DTYPE_E2M1) {
        uint8_t scale = e8m0_scale(largest);
        ((uint8_t *)quantized->scales)[index] = scale;
        return e8m0_to_f32(scale);
    }
    float scale = largest /
                  (quantized->dtype == DTYPE_INT8 ? QUANTIZE_INT8_MAX : QUANTIZE_E4M3_MAX);
    dtype_store(DTYPE_F32, quantized->scales, index, scale);
    return scale;
}

static void store_block(const struct quantized *quantized, const struct block *block, float scale)
{
    for (uint32_t o = block->first_row; o < block->end_row; o++)
        for (uint32_t i = block->first_column; i < block->end_column; i++) {
            size_t index = (size_t)o * block->n_in + i;
            float w = dtype_load(block->source_dtype, block->source, index);
            dtype_store(quantized->dtype, quantized->w, index, scale > 0 ? w / scale : 0);
        }
}

struct task {
    const struct quantized *quantized;
    enum dtype source_dtype;
    const void *source;
};

/* ---- INT8: a block is a row, or 32 columns of one ---- */

/* The bits of the largest magnitude of n values. Their order is that of the magnitudes; what is not finite is larger. */
INLINE int32_t largest_bits(const float *values, const uint32_t n)
{
    int32_t bits[PIECE], most = 0;
    memcpy(bits, values, n * sizeof *bits);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t magnitude = bits[i] & 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

INLINE float largest_of(int32_t bits)
{
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    return isfinite(largest) ? largest : NAN;
}

/* Adding 1.5 * 2^23 rounds to the nearest whole number, even if two are as near, and leaves it in the lowest bits. Where the scale has
 * lost bits, numbers are beyond 127, but below 256. */
INLINE void round_values(const float *values, const uint32_t n, float scale, int8_t *w)
{
    const float to_whole = 12582912.0F;
    const int32_t zero = 0x4b400000, most = (int32_t)QUANTIZE_INT8_MAX; /* zero: its bits */
    float sums[PIECE];
    int32_t bits[PIECE];
    if (!(scale > 0)) {
        memset(w, 0, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        sums[i] = values[i] / scale + to_whole;
    memcpy(bits, sums, n * sizeof *bits);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t low = bits[i] > zero - most ? bits[i] : zero - most;
        w[i] = (int8_t)((low < zero + most ? low : zero + most) - zero);
    }
}

/* A piece of a row from column i on; zeros follow the end of the row. Returns how many it has of the row. */
static uint32_t widen_piece(const struct task *task, uint32_t row, uint64_t i, float values[PIECE])
{
    const uint64_t n_in = task->quantized->n_in;
    const uint32_t n = n_in - i < PIECE ? (uint32_t)(n_in - i) : PIECE;
    widen_weights(task->source_dtype, task->source, row * n_in + i, n, values);
    memset(values + n, 0, (PIECE - n) * sizeof *values);
    return n;
}

/* Loops have a fixed length, so that they become vectors. */
INLINE void round_whole(const struct task *task, uint32_t row)
{
    const uint64_t n_in = task->quantized->n_in;
    int8_t *w = (int8_t *)task->quantized->w + row * n_in, rounded[PIECE];
    float values[PIECE];
    int32_t most = 0;
    for (uint64_t i = 0; i < n_in; i += PIECE) {
        widen_piece(task, row, i, values);
        const int32_t bits = largest_bits(values, PIECE);
        most = bits > most ? bits : most;
    }
    const float scale = store_scale(task->quantized, row, largest_of(most));
    for (uint64_t i = 0; i < n_in; i += PIECE) {
        const uint32_t n = widen_piece(task, row, i, values);
        round_values(values, PIECE, scale, rounded);
        memcpy(w + i, rounded, n);
    }
}

INLINE void round_groups(const struct task *task, uint32_t row)
{
    const uint64_t n_in = task->quantized->n_in;
    int8_t *w = (int8_t *)task->quantized->w + row * n_in;
    size_t at = row * (n_in / QUANTIZE_GROUP);
    float values[PIECE];
    for (uint64_t i = 0; i < n_in; i += PIECE) {
        const uint32_t n = widen_piece(task, row, i, values);
        for (uint32_t g = 0; g < n; g += QUANTIZE_GROUP) {
            const int32_t most = largest_bits(values + g, QUANTIZE_GROUP);
            const float scale = store_scale(task->quantized, at++, largest_of(most));
            round_values(values + g, QUANTIZE_GROUP, scale, w + i + g);
        }
    }
}

INLINE void round_row(const struct task *task, uint32_t row)
{
    if (task->quantized->scale_columns == QUANTIZE_GROUP)
        round_groups(task, row);
    else
        round_whole(task, row);
}

static void round_int8(void *arg, uint32_t row)
{
    round_row(arg, row);
}

FOR_AVX2 static void round_int8_avx2(void *arg, uint32_t row)
{
    round_row(arg, row);
}

/* ---- all formats ---- */

static uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

/* Quantizes one row of blocks. */
static void quantize_blocks(void *arg, uint32_t index)
{
    const struct task *task = arg;
    const struct quantized *quantized = task->quantized;
    const uint32_t rows = quantized->scale_rows, columns = quantized->scale_columns;
    const uint64_t o = (uint64_t)index * rows;
    size_t scale = index * blocks(quantized->n_in, columns);
    for (uint64_t i = 0; i < quantized->n_in; i += columns) {
        struct block block = {
            .source_dtype = task->source_dtype,
            .source = task->source,
            .n_in = quantized->n_in,
            .first_row = (uint32_t)o,
            .end_row = least(o + rows, quantized->n_out),
            .first_column = (uint32_t)i,
            .end_column = least(i + columns, quantized->n_in),
        };
        store_block(quantized, &block, store_scale(quantized, scale++, largest_magnitude(&block)));
    }
}

static thread_pool_body body_of(const struct quantized *quantized)
{
    if (quantized->dtype != DTYPE_INT8)
        return quantize_blocks;
    return has_avx2() ? round_int8_avx2 : round_int8;
}

void quantize(struct thread_pool *pool, const struct quantized *quantized, enum dtype source_dtype,
              const void *source)
{
    struct task task = {quantized, source_dtype, source};
    assert(source_dtype <= DTYPE_F16 ||
           (dtype_is_blocks(source_dtype) && quantized->dtype == DTYPE_INT8));
    assert(quantized->scale_rows > 0 && quantized->scale_columns > 0);
    assert(quantized->dtype != DTYPE_INT8 || quantized->scale_columns == quantized->n_in ||
           quantized->scale_columns == QUANTIZE_GROUP);
    parallel_run(pool, (uint64_t)quantized->n_out * quantized->n_in * WORK_OF_WEIGHT,
                 (uint32_t)blocks(quantized->n_out, quantized->scale_rows), body_of(quantized),
                 &task);
}

float dequantize_scale(const struct gemm *gemm, uint32_t o, uint32_t i)
{
    if (!gemm->w_scales)
        return 1;
    assert(gemm->w_scale_rows > 0 && gemm->w_scale_columns > 0);
    size_t index = o / gemm->w_scale_rows * blocks(gemm->n_in, gemm->w_scale_columns) +
                   i / gemm->w_scale_columns;
    if (gemm->w_dtype == DTYPE_E2M1)
        return e8m0_to_f32(((const uint8_t *)gemm->w_scales)[index]);
    return dtype_load(DTYPE_F32, gemm->w_scales, index);
}

void dequantize_row(const struct gemm *gemm, uint32_t o, float *row_out)
{
    size_t first = (size_t)o * gemm->n_in;
    assert(o < gemm->n_out);
    for (uint32_t i = 0; i < gemm->n_in; i++)
        row_out[i] = dtype_load(gemm->w_dtype, gemm->w, first + i) * dequantize_scale(gemm, o, i);
}
