/*
 * product_rows - copies rows of an operand to shared memory, a stage at a time: the part of one thread.
 *
 * Rows of a stage are swizzled by 16 bytes, so that ldmatrix has no bank conflicts; rows of 128 bytes as sm_90 needs them.
 */
#pragma once

#include "kernels/cuda/hardware.cuh"

/* The place of 16 bytes (a chunk) of a row in a stage. A row has 32, 64, 128 or 256 bytes. */
template <int BYTES> DEVICE uint32_t swizzled(uint32_t row, uint32_t chunk)
{
    const uint32_t turn = BYTES >= 128 ? row : BYTES == 64 ? row >> 1 : row >> 2;
    return row * BYTES + ((chunk ^ (turn & (BYTES / 16 - 1))) << 4);
}

/* The part of one of THREADS threads: the same chunk of N rows. A stage has BYTES bytes of each of ROWS rows. */
template <int ROWS, int BYTES, int THREADS> struct product_rows {
    static constexpr int CHUNKS = BYTES / 16, N = ROWS * CHUNKS / THREADS, APART = THREADS / CHUNKS;
    static_assert(N * APART == ROWS, "threads share rows evenly");
    const uint8_t *from[N];
    uint32_t bytes[N]; /* of the row; 0: there is no row */
};

template <int ROWS, int BYTES, int THREADS>
DEVICE void product_rows_begin(struct product_rows<ROWS, BYTES, THREADS> &rows, const void *first,
                               uint64_t stride_bytes, uint32_t n_rows, uint32_t row_bytes)
{
    UNROLL
    for (int j = 0; j < rows.N; j++) {
        const uint32_t row = threadIdx.x / rows.CHUNKS + j * rows.APART;
        const bool is_there = row < n_rows;
        rows.from[j] = (const uint8_t *)first + (is_there ? row * stride_bytes : 0);
        rows.bytes[j] = is_there ? row_bytes : 0;
    }
}

/* Copies stage number step to target, with zeros after the end of the rows. */
template <int ROWS, int BYTES, int THREADS>
DEVICE void product_rows_load(const struct product_rows<ROWS, BYTES, THREADS> &rows,
                              uint32_t target, uint32_t step)
{
    const uint32_t chunk = threadIdx.x % rows.CHUNKS, byte = step * BYTES + chunk * 16;
    UNROLL
    for (int j = 0; j < rows.N; j++) {
        const bool is_there = byte < rows.bytes[j];
        cp_async16(target + swizzled<BYTES>(threadIdx.x / rows.CHUNKS + j * rows.APART, chunk),
                   rows.from[j] + (is_there ? byte : 0), is_there);
    }
}
