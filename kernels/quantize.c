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

/* ---- INT8: a block is a part of one row ---- */

/* The bits of a magnitude are in the order of the magnitudes, and those of what is not finite are the largest. */
static float largest_of(enum dtype dtype, const void *source, size_t first, uint32_t n)
{
    int32_t most = 0;
    for (uint32_t at = 0; at < n; at += PIECE) {
        const uint32_t n_here = n - at < PIECE ? n - at : PIECE;
        float values[PIECE];
        int32_t bits[PIECE];
        widen_weights(dtype, source, first + at, n_here, values);
        memcpy(bits, values, n_here * sizeof *bits);
        for (uint32_t i = 0; i < n_here; i++) {
            const int32_t magnitude = bits[i] & 0x7fffffff;
            most = magnitude > most ? magnitude : most;
        }
    }
    float largest;
    memcpy(&largest, &most, sizeof largest);
    return isfinite(largest) ? largest : NAN;
}

/* Adding 1.5 * 2^23 rounds to the nearest whole number, even if two are as near, and leaves it in the lowest bits. */
static void store_int8(enum dtype dtype, const void *source, size_t first, uint32_t n, float scale,
                       int8_t *w)
{
    for (uint32_t at = 0; at < n; at += PIECE) {
        const uint32_t n_here = n - at < PIECE ? n - at : PIECE;
        float values[PIECE];
        uint32_t bits[PIECE];
        widen_weights(dtype, source, first + at, n_here, values);
        for (uint32_t i = 0; i < n_here; i++) {
            const float value = values[i] / scale; /* beyond 127 where the scale has lost bits */
            const float low = value > -QUANTIZE_INT8_MAX ? value : -QUANTIZE_INT8_MAX;
            values[i] = (low < QUANTIZE_INT8_MAX ? low : QUANTIZE_INT8_MAX) + 12582912.0F;
        }
        memcpy(bits, values, n_here * sizeof *bits);
        for (uint32_t i = 0; i < n_here; i++)
            w[first + at + i] = (int8_t)(uint8_t)bits[i];
    }
}

static void quantize_int8(const struct quantized *quantized, enum dtype source_dtype,
                          const void *source, uint32_t row)
{
    const size_t begin = (size_t)row * quantized->n_in;
    size_t scale_at = row * blocks(quantized->n_in, quantized->scale_columns);
    for (uint64_t i = 0; i < quantized->n_in; i += quantized->scale_columns) {
        const uint64_t left = quantized->n_in - i;
        const uint32_t n = left < quantized->scale_columns ? (uint32_t)left
                                                           : quantized->scale_columns;
        const float scale = store_scale(quantized, scale_at++,
                                        largest_of(source_dtype, source, begin + i, n));
        if (scale > 0)
            store_int8(source_dtype, source, begin + i, n, scale, quantized->w);
        else
            memset((int8_t *)quantized->w + begin + i, 0, n);
    }
}

/* ---- all formats ---- */

static uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

struct task {
    const struct quantized *quantized;
    enum dtype source_dtype;
    const void *source;
};

/* Quantizes one row of blocks. */
static void quantize_blocks(void *arg, uint32_t index)
{
    const struct task *task = arg;
    const struct quantized *quantized = task->quantized;
    const uint32_t rows = quantized->scale_rows, columns = quantized->scale_columns;
    const uint64_t o = (uint64_t)index * rows;
    if (quantized->dtype == DTYPE_INT8) {
        quantize_int8(quantized, task->source_dtype, task->source, index);
        return;
    }
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

void quantize(struct thread_pool *pool, const struct quantized *quantized, enum dtype source_dtype,
              const void *source)
{
    struct task task = {quantized, source_dtype, source};
    assert(source_dtype <= DTYPE_F16);
    assert(quantized->scale_rows > 0 && quantized->scale_columns > 0);
    parallel_run(pool, (uint64_t)quantized->n_out * quantized->n_in * WORK_OF_WEIGHT,
                 (uint32_t)blocks(quantized->n_out, quantized->scale_rows), quantize_blocks, &task);
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
