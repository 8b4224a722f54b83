/*
 * gemm - y = x W^T straight from row-major weights.
 *
 * One 16-lane accumulator for each (token, weight row) runs over n_in in order, its lanes are added
 * by vec_sum's tree: the bits of y[t][o] depend on n_in alone. A tile is MR tokens x NR rows in
 * registers. Two ways through the same tiles:
 *
 *   skinny   few tokens: weights are widened as they are read, each once, tile after tile
 *   wide     many tokens: NR rows x K_BLOCK are widened into a scratch that stays in the first-level
 *            cache and meets TOKEN_BLOCK tokens; accumulators are kept between K blocks
 *
 * Bound: skinny, the weights' bytes; wide, multiply-adds.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

#include <assert.h>

#ifdef __AVX512F__
enum { MR = 4, NR = 6 }; /* 24 accumulators, 4 + 1 operands: 29 of 32 registers */
#else
enum { MR = 2, NR = 3 }; /* 12 registers of accumulators: 16 there are */
#endif
enum {
    TILE = MR * NR,
    TILE_SUMS = (TILE + 7) / 8 * 8,
    ROW_NR = 8,        /* weight rows of a tile for one token */
    ROW_STREAMS = 2,   /* of them read side by side */
    TOKEN_BLOCK = 64,  /* tokens that meet a widened weight block: a multiple of MR */
    K_BLOCK = 1024,    /* NR rows of it fit the first-level cache */
    SKINNY_MAX = 8,    /* up to this many tokens reading twice is cheaper than widening */
    NEAR_BYTES = 8192, /* two tiles of this size and their x fit the first-level cache */
    TASKS_PER_THREAD = 6,
};

/* What the first-level cache has no room for waits in the second. */
INLINE void prefetch(const char *line, size_t n_bytes, bool is_near)
{
    if (is_near)
        UNROLL
    for (size_t i = 0; i < n_bytes; i += 64)
        _mm_prefetch(line + i, _MM_HINT_T0);
    else UNROLL for (size_t i = 0; i < n_bytes; i += 64) _mm_prefetch(line + i, _MM_HINT_T1);
}

/* Adds n_in products to the accumulators acc[m * nr + n]. x rows and w rows are apart by x_stride
 * floats and w_stride bytes. ahead: bytes to the next tile, 0: not from memory. While this tile is
 * read row beside row, the next is fetched line after line: that alone doubled a GEMV's speed. */
INLINE void tile_run(const uint32_t mr, const uint32_t nr, const enum dtype dtype, const float *x,
                     size_t x_stride, const char *w, size_t w_stride, uint32_t n_in, size_t ahead,
                     vec *acc)
{
    const size_t bytes = dtype == DTYPE_F32 ? 4 : 2;
    uint32_t k = 0;
    for (; k + LANES <= n_in; k += LANES) {
        vec a[ROW_NR];
        if (ahead)
            prefetch(w + ahead + k * nr * bytes, nr * LANES * bytes, ahead <= NEAR_BYTES);
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            a[m] = vec_load(x + m * x_stride + k);
        UNROLL
        for (uint32_t n = 0; n < nr; n++) {
            const char *row = w + n * w_stride + k * bytes;
            vec b = vec_load_as(dtype, row);
            UNROLL
            for (uint32_t m = 0; m < mr; m++)
                acc[m * nr + n] = vec_fma(a[m], b, acc[m * nr + n]);
        }
    }
    if (k == n_in)
        return;
    vec a[ROW_NR];
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        a[m] = vec_load_some(DTYPE_F32, x + m * x_stride + k, n_in - k);
    UNROLL
    for (uint32_t n = 0; n < nr; n++) {
        vec b = vec_load_some(dtype, w + n * w_stride + k * bytes, n_in - k);
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m * nr + n] = vec_fma(a[m], b, acc[m * nr + n]);
    }
}

/* Lane sums of a tile, bias, and out to y[token + m][row + n]. */
INLINE void tile_finish(const uint32_t mr, const uint32_t nr, const struct gemm *gemm,
                        uint32_t token, uint32_t row, const vec *acc)
{
    float sums[TILE_SUMS];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i += 8) {
        vec eight[8];
        UNROLL
        for (uint32_t j = 0; j < 8; j++)
            eight[j] = i + j < mr * nr ? acc[i + j] : vec_zero();
        _mm256_storeu_ps(sums + i, vec_sum8(eight));
    }
    for (uint32_t m = 0; m < mr; m++) {
        float *y = gemm->y + (token + m) * gemm->y_stride + row;
        for (uint32_t n = 0; n < nr; n++) {
            float sum = sums[m * nr + n];
            if (gemm->bias)
                sum += dtype_load(gemm->bias_dtype, gemm->bias, row + n);
            y[n] = gemm->accumulate ? y[n] + sum : sum;
        }
    }
}

INLINE void skinny_tile(const uint32_t mr, const uint32_t nr, const enum dtype dtype,
                        const struct gemm *gemm, uint32_t token, uint32_t row)
{
    vec acc[TILE_SUMS];
    size_t w_stride = gemm->n_in * dtype_bytes(dtype);
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        acc[i] = vec_zero();
    tile_run(mr, nr, dtype, gemm->x + token * gemm->x_stride, gemm->x_stride,
             (const char *)gemm->w + row * w_stride, w_stride, gemm->n_in, nr * w_stride, acc);
    tile_finish(mr, nr, gemm, token, row, acc);
}

/* One token: nearly linear through the weights, which is what prefetching understands. */
INLINE void row_tile(const enum dtype dtype, const struct gemm *gemm, uint32_t row)
{
    vec acc[ROW_NR];
    size_t w_stride = gemm->n_in * dtype_bytes(dtype);
    const char *w = (const char *)gemm->w + row * w_stride;
    UNROLL
    for (uint32_t n = 0; n < ROW_NR; n += ROW_STREAMS) {
        UNROLL
        for (uint32_t i = 0; i < ROW_STREAMS; i++)
            acc[n + i] = vec_zero();
        tile_run(1, ROW_STREAMS, dtype, gemm->x, 0, w + n * w_stride, w_stride, gemm->n_in,
                 ROW_STREAMS * w_stride, acc + n);
    }
    tile_finish(1, ROW_NR, gemm, 0, row, acc);
}

/* All tokens against one weight tile: it is read from memory once, from the cache then. */
INLINE void skinny_tokens(const uint32_t nr, const enum dtype dtype, const struct gemm *gemm,
                          uint32_t row)
{
    uint32_t token = 0;
    for (; token + MR <= gemm->n_tokens; token += MR)
        skinny_tile(MR, nr, dtype, gemm, token, row);
    if (MR > 2 && token + 2 <= gemm->n_tokens) {
        skinny_tile(2, nr, dtype, gemm, token, row);
        token += 2;
    }
    if (token < gemm->n_tokens)
        skinny_tile(1, nr, dtype, gemm, token, row);
}

INLINE void skinny_rows(const enum dtype dtype, const struct gemm *gemm, uint32_t row,
                        uint32_t row_end)
{
    if (gemm->n_tokens == 1)
        for (; row + ROW_NR <= row_end; row += ROW_NR)
            row_tile(dtype, gemm, row);
    for (; row + NR <= row_end; row += NR)
        skinny_tokens(NR, dtype, gemm, row);
    for (; row < row_end; row++)
        skinny_tokens(1, dtype, gemm, row);
}

static void skinny(const struct gemm *gemm, uint32_t row, uint32_t row_end)
{
    switch (gemm->w_dtype) {
    case DTYPE_F32:
        skinny_rows(DTYPE_F32, gemm, row, row_end);
        break;
    case DTYPE_BF16:
        skinny_rows(DTYPE_BF16, gemm, row, row_end);
        break;
    case DTYPE_F16:
        skinny_rows(DTYPE_F16, gemm, row, row_end);
        break;
    }
}

/* Widened weights of one K block, and the accumulators of every tile between two blocks. */
struct wide_scratch {
    float w[NR * K_BLOCK];
    vec acc[TOKEN_BLOCK / MR + MR][TILE];
};

/* One K block of a weight tile. */
struct wide_block {
    const struct gemm *gemm;
    const char *w; /* float32 rows */
    size_t w_stride;
    uint32_t row, k, k_len;
};

INLINE void wide_tile(const uint32_t mr, const uint32_t nr, const struct wide_block *block,
                      uint32_t token, vec *kept)
{
    const struct gemm *gemm = block->gemm;
    vec acc[TILE_SUMS];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        acc[i] = block->k == 0 ? vec_zero() : kept[i];
    tile_run(mr, nr, DTYPE_F32, gemm->x + token * gemm->x_stride + block->k, gemm->x_stride,
             block->w, block->w_stride, block->k_len, 0, acc);
    if (block->k + block->k_len == gemm->n_in) {
        tile_finish(mr, nr, gemm, token, block->row, acc);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        kept[i] = acc[i];
}

INLINE void wide_tokens(const uint32_t nr, const struct wide_block *block, uint32_t token,
                        uint32_t token_end, struct wide_scratch *scratch)
{
    uint32_t tile = 0;
    for (; token + MR <= token_end; token += MR)
        wide_tile(MR, nr, block, token, scratch->acc[tile++]);
    for (; token < token_end; token++)
        wide_tile(1, nr, block, token, scratch->acc[tile++]);
}

static void widen(enum dtype dtype, const char *source, uint32_t n, float *wide_out)
{
    uint32_t k = 0;
    if (dtype == DTYPE_BF16)
        for (; k + LANES <= n; k += LANES)
            vec_store(wide_out + k, vec_load_as(DTYPE_BF16, source + 2 * k));
    else
        for (; k + LANES <= n; k += LANES)
            vec_store(wide_out + k, vec_load_as(DTYPE_F16, source + 2 * k));
    if (k < n)
        vec_store_some(wide_out + k, vec_load_some(dtype, source + 2 * k, n - k), n - k);
}

/* Length of the K blocks of n_in: equal, whole vectors, none over K_BLOCK. */
static uint32_t k_block_len(uint32_t n_in)
{
    uint32_t n_blocks = (n_in + K_BLOCK - 1) / K_BLOCK;
    return ((n_in + n_blocks - 1) / n_blocks + LANES - 1) / LANES * LANES;
}

INLINE void wide_weight_tile(const uint32_t nr, const struct gemm *gemm, uint32_t row,
                             uint32_t token, uint32_t token_end, struct wide_scratch *scratch)
{
    uint32_t k_len = k_block_len(gemm->n_in);
    size_t w_bytes = dtype_bytes(gemm->w_dtype);
    for (uint32_t k = 0; k < gemm->n_in; k += k_len) {
        struct wide_block block = {.gemm = gemm, .row = row, .k = k};
        block.k_len = gemm->n_in - k < k_len ? gemm->n_in - k : k_len;
        block.w = (const char *)gemm->w + ((size_t)row * gemm->n_in + k) * w_bytes;
        block.w_stride = gemm->n_in * w_bytes;
        if (gemm->w_dtype != DTYPE_F32) {
            for (uint32_t n = 0; n < nr; n++)
                widen(gemm->w_dtype, block.w + n * block.w_stride, block.k_len,
                      scratch->w + n * K_BLOCK);
            block.w = (const char *)scratch->w;
            block.w_stride = K_BLOCK * sizeof(float);
        }
        wide_tokens(nr, &block, token, token_end, scratch);
    }
}

static void wide(const struct gemm *gemm, uint32_t row, uint32_t row_end, uint32_t token,
                 uint32_t token_end)
{
    struct wide_scratch scratch;
    for (; row + NR <= row_end; row += NR)
        wide_weight_tile(NR, gemm, row, token, token_end, &scratch);
    for (; row < row_end; row++)
        wide_weight_tile(1, gemm, row, token, token_end, &scratch);
}

/* A list of products cut into tasks: rectangles of rows and token blocks. */
struct plan {
    const struct gemm *gemms;
    uint32_t n_gemms;
    uint32_t rows[GEMMS_MAX];      /* weight rows of a task */
    uint32_t first[GEMMS_MAX + 1]; /* first task of each product */
};

static uint32_t n_token_blocks(const struct gemm *gemm)
{
    if (gemm->n_tokens <= SKINNY_MAX)
        return gemm->n_tokens > 0;
    return (gemm->n_tokens + TOKEN_BLOCK - 1) / TOKEN_BLOCK;
}

static void run_task(void *arg, uint32_t index)
{
    const struct plan *plan = arg;
    uint32_t g = 0;
    while (index >= plan->first[g + 1])
        g++;
    const struct gemm *gemm = &plan->gemms[g];
    uint32_t n_blocks = n_token_blocks(gemm);
    uint32_t task = index - plan->first[g];
    uint32_t row = task / n_blocks * plan->rows[g];
    uint32_t row_end = row + plan->rows[g] < gemm->n_out ? row + plan->rows[g] : gemm->n_out;
    if (gemm->n_tokens <= SKINNY_MAX) {
        skinny(gemm, row, row_end);
        return;
    }
    uint32_t token = task % n_blocks * TOKEN_BLOCK;
    uint32_t token_end = token + TOKEN_BLOCK < gemm->n_tokens ? token + TOKEN_BLOCK
                                                              : gemm->n_tokens;
    wide(gemm, row, row_end, token, token_end);
}

static uint64_t gemm_work(const struct gemm *gemm)
{
    return (uint64_t)gemm->n_tokens * gemm->n_in * gemm->n_out;
}

void cpu_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms)
{
    struct plan plan = {.gemms = gemms, .n_gemms = n_gemms};
    uint64_t work = 0;
    assert(n_gemms <= GEMMS_MAX);
    for (uint32_t g = 0; g < n_gemms; g++)
        assert(gemms[g].n_in > 0);
    for (uint32_t g = 0; g < n_gemms; g++)
        work += gemm_work(&gemms[g]);
    uint32_t n_threads = parallel_threads(pool, work);
    uint64_t task_work = 1 + (n_threads == 1 ? work : work / (n_threads * TASKS_PER_THREAD));
    for (uint32_t g = 0; g < n_gemms; g++) {
        uint32_t n_blocks = n_token_blocks(&gemms[g]);
        uint64_t n_tasks = gemm_work(&gemms[g]) / task_work + 1;
        uint64_t n_row_tasks = n_blocks ? (n_tasks + n_blocks - 1) / n_blocks : 1;
        const uint32_t step = gemms[g].n_tokens == 1 ? ROW_NR : NR;
        uint32_t rows = (uint32_t)((gemms[g].n_out + n_row_tasks - 1) / n_row_tasks);
        plan.rows[g] = (rows + step - 1) / step * step;
        plan.first[g + 1] = plan.first[g];
        if (plan.rows[g] > 0)
            plan.first[g + 1] += n_blocks * ((gemms[g].n_out + plan.rows[g] - 1) / plan.rows[g]);
    }
    parallel_run(pool, work, plan.first[n_gemms], run_task, &plan);
}
