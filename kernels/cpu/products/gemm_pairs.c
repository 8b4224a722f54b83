/*
 * gemm_pairs - multiplies packed INT8 weights, a block of a panel widened to 16 bits for all tokens of a task.
 *
 * Two products are one multiplication and additions (S. Winograd's inner product):
 *
 *     w0 x0 + w1 x1 = (w0 + x1) (w1 + x0) - w0 w1 - x0 x1
 *
 * The last two terms are sums of a row of weights or of a token alone. With them a step of 64 products is two multiply-adds
 * of pairs and six additions, instead of four and four: a Zen 3 core adds in four pipes, but multiplies in two (1.68 of
 * the float peak, not 1.55). Every sum is taken modulo 2^32, and the result fits: the bits are those of any other way.
 */
#include "kernels/cpu/vector/int8.h"

#ifdef HAS_PAIRS

#include "kernels/cpu/products/gemm_pairs.h"

#include <assert.h>

enum {
    BLOCK_MAX = 640, /* elements of a row: with four tokens 25 KiB of the first level's 32 */
    BLOCK_GROUPS = BLOCK_MAX / GROUP_LEN,
    STEP = 4,                      /* elements of a row */
    STEP_WIDE = STEP * PANEL_ROWS, /* 16-bit numbers */
    LINE = 64,
};

typedef int32_t sums_of_panel[PANEL_ROWS]; /* modulo 2^32 */

/* A part's inputs, and one panel's block in 16 bits. */
struct pairs {
    const struct gemm_part *part;
    const struct rounded *x;
    struct panels panels;
    uint32_t n_tokens, row;
    _Alignas(64) uint16_t wide[BLOCK_MAX * PANEL_ROWS];  /* [step][even rows, odd rows] */
    _Alignas(64) sums_of_panel w_products[BLOCK_GROUPS]; /* sums of w0 w1 of a group */
    _Alignas(64) sums_of_panel sums[TOKENS_MAX];
    _Alignas(64) float y[TOKENS_MAX][PANEL_ROWS]; /* sums of the groups before */
};

INLINE vec_int sums_load(const void *sums)
{
    return (vec_int){_mm256_load_si256((const __m256i *)sums),
                     _mm256_load_si256((const __m256i *)sums + 1)};
}

INLINE void sums_store(void *sums, vec_int s)
{
    _mm256_store_si256((__m256i *)sums, s.low);
    _mm256_store_si256((__m256i *)sums + 1, s.high);
}

INLINE vec_int sums_add(vec_int a, vec_int b)
{
    return (vec_int){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

INLINE vec_int sums_sub(vec_int a, vec_int b)
{
    return (vec_int){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

void gemm_pairs_correct(const struct panels *panels, const struct rounded *x, uint32_t n_tokens)
{
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t g = 0; g < panels->n_groups; g++) {
            const count *counts = x->counts + t * x->stride + (size_t)g * panels->group_len;
            __m256i sum = _mm256_setzero_si256();
            for (uint32_t k = 0; k < panels->group_len; k += LANES) {
                __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(counts + k));
                __m256i odd = _mm256_srli_epi64(v,
                                                32); /* the even ones meet zeros in the odd half */
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, odd));
            }
            _Alignas(32) int32_t lanes[8];
            _mm256_store_si256((__m256i *)(void *)lanes, sum);
            int32_t *correction = &x->corrections[(size_t)t * panels->n_groups + g];
            for (uint32_t i = 0; i < 8; i++)
                *correction = (int32_t)((uint32_t)*correction - (uint32_t)lanes[i]);
        }
}

/* Widens len elements of 16 rows, and returns the sums of w0 w1. Asks for what the next block needs. */
INLINE vec_int widen(const uint8_t *w, uint32_t len, uint16_t *wide)
{
    vec_int products = vec_int_begin(0);
    for (const uint8_t *end = w + (size_t)len * PANEL_ROWS; w != end;
         w += LINE, wide += STEP_WIDE) {
        weights64 v = weights_load(w);
        weights_ask(w);
        sums_store(wide, v.even);
        sums_store(wide + STEP_WIDE / 2, v.odd);
        products.low = _mm256_add_epi32(products.low, _mm256_madd_epi16(v.even.low, v.odd.low));
        products.high = _mm256_add_epi32(products.high, _mm256_madd_epi16(v.even.high, v.odd.high));
    }
    return products;
}

/* sums[m] (0 if is_first) += (w0 + x1) (w1 + x0) + (w2 + x3) (w3 + x2) over len elements of 16 rows. Asks for the weights
 * at ahead on the way, half a block of this length. */
INLINE void tile_dot(const uint32_t mr, const count *x, size_t stride, const uint16_t *wide,
                     uint32_t len, const uint8_t *ahead, bool is_first, sums_of_panel *sums)
{
    vec_int acc[PAIRS_TILE];
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = is_first ? vec_int_begin(0) : sums_load(sums[m]);
#pragma GCC unroll 2
    for (const count *end = x + len; x != end; x += STEP) {
        vec_int even = sums_load(wide), odd = sums_load(wide + STEP_WIDE / 2);
        vec_prefetch((const char *)ahead);
        ahead += LINE / 2;
        wide += STEP_WIDE;
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            factors f = factors_load(x + m * stride);
            acc[m].low = _mm256_add_epi32(acc[m].low,
                                          _mm256_madd_epi16(_mm256_add_epi16(even.low, f.odd),
                                                            _mm256_add_epi16(odd.low, f.even)));
            acc[m].high = _mm256_add_epi32(acc[m].high,
                                           _mm256_madd_epi16(_mm256_add_epi16(even.high, f.odd),
                                                             _mm256_add_epi16(odd.high, f.even)));
        }
    }
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        sums_store(sums[m], acc[m]);
}

/* As tile_dot, n tokens from token on. Not inlined: the compiler would store the sums in every step. */
static __attribute__((noinline)) void tokens_dot(uint32_t n, const count *x, size_t stride,
                                                 const uint16_t *wide, uint32_t len,
                                                 const uint8_t *ahead, bool is_first,
                                                 sums_of_panel *sums)
{
    if (n == 4)
        tile_dot(4, x, stride, wide, len, ahead, is_first, sums);
    else if (n == 3)
        tile_dot(3, x, stride, wide, len, ahead, is_first, sums);
    else if (n == 2)
        tile_dot(2, x, stride, wide, len, ahead, is_first, sums);
    else
        tile_dot(1, x, stride, wide, len, ahead, is_first, sums);
}

/* A block's first tile asks for the first half of what follows it, the second one for the other half. */
INLINE const uint8_t *half_ahead(const uint8_t *next, uint32_t token, uint32_t len)
{
    return next + token / PAIRS_TILE % 2 * (size_t)len * PANEL_ROWS / 2;
}

INLINE uint32_t tile_tokens(const struct pairs *pairs, uint32_t token)
{
    return pairs->n_tokens - token < PAIRS_TILE ? pairs->n_tokens - token : PAIRS_TILE;
}

/* y += (sums of group g of a token and a panel) * (scale of w * scale of x). */
INLINE vec group_add(const struct pairs *pairs, uint32_t token, uint32_t g, const uint8_t *group,
                     vec_int sums, vec_int w_products, vec y)
{
    const struct rounded *x = pairs->x;
    size_t index = (size_t)token * pairs->panels.n_groups + g;
    sums = sums_add(sums, vec_int_begin(x->corrections[index]));
    vec w_scale = vec_load((const float *)(const void *)group);
    vec scale = vec_mul(w_scale, vec_set(x->scales[index]));
    return vec_fma(vec_int_to_vec(sums_sub(sums, w_products)), scale, y);
}

/* Stores the outputs of a tile whose rows are one group. */
static void tile_finish(const struct pairs *pairs, uint32_t token, uint32_t mr,
                        const uint8_t *panel, vec_int w_products)
{
    vec y[PAIRS_TILE];
    for (uint32_t m = 0; m < mr; m++)
        y[m] = group_add(pairs, token + m, 0, panel, sums_load(pairs->sums[token + m]), w_products,
                         vec_zero());
    gemm_panels_store(pairs->part->gemm, pairs->part->token + token, mr, pairs->row, 1, PANEL_ROWS,
                      y);
}

/* Rows that are one group. */
static void rows_run(struct pairs *pairs, const uint8_t *panel)
{
    const struct rounded *x = pairs->x;
    const uint32_t n = pairs->panels.group_len, n_blocks = (n + BLOCK_MAX - 1) / BLOCK_MAX;
    const uint32_t block = ((n + n_blocks - 1) / n_blocks + ROW_LEN_STEP - 1) / ROW_LEN_STEP *
                           ROW_LEN_STEP;
    const uint8_t *w = panel + PANEL_SCALE_BYTES;
    vec_int w_products = vec_int_begin(0);
    for (uint32_t k = 0; k < n; k += block) {
        const uint32_t len = n - k < block ? n - k : block;
        w_products = sums_add(w_products, widen(w, len, pairs->wide));
        w += (size_t)len * PANEL_ROWS;
        for (uint32_t t = 0; t < pairs->n_tokens; t += PAIRS_TILE) {
            const uint32_t mr = tile_tokens(pairs, t);
            tokens_dot(mr, x->counts + t * x->stride + k, x->stride, pairs->wide, len,
                       half_ahead(w, t, len), k == 0, &pairs->sums[t]);
            /* Here, not after all tiles: stores in a burst would wait for memory. */
            if (k + len == n)
                tile_finish(pairs, t, mr, panel, w_products);
        }
    }
}

/* Groups first .. first + n - 1 of a tile. */
static void tile_groups(struct pairs *pairs, uint32_t token, uint32_t first, uint32_t n,
                        const uint8_t *panel)
{
    const struct rounded *x = pairs->x;
    const count *counts = x->counts + token * x->stride + (size_t)first * GROUP_LEN;
    const uint32_t mr = tile_tokens(pairs, token);
    vec y[PAIRS_TILE];
    for (uint32_t m = 0; m < mr; m++)
        y[m] = first == 0 ? vec_zero() : vec_load(pairs->y[token + m]);
    for (uint32_t g = 0; g < n; g++) {
        const uint8_t *group = panel + (first + g) * pairs->panels.group_bytes;
        tokens_dot(mr, counts + (size_t)g * GROUP_LEN, x->stride,
                   pairs->wide + (size_t)g * GROUP_LEN * PANEL_ROWS, GROUP_LEN,
                   half_ahead(group + n * pairs->panels.group_bytes, token, GROUP_LEN), true,
                   &pairs->sums[token]);
        vec_int w_products = sums_load(pairs->w_products[g]);
        for (uint32_t m = 0; m < mr; m++)
            y[m] = group_add(pairs, token + m, first + g, group, sums_load(pairs->sums[token + m]),
                             w_products, y[m]);
    }
    if (first + n == pairs->panels.n_groups) {
        gemm_panels_store(pairs->part->gemm, pairs->part->token + token, mr, pairs->row, 1,
                          PANEL_ROWS, y);
        return;
    }
    for (uint32_t m = 0; m < mr; m++)
        vec_store(pairs->y[token + m], y[m]);
}

static void groups_run(struct pairs *pairs, const uint8_t *panel)
{
    const uint32_t n_groups = pairs->panels.n_groups;
    for (uint32_t first = 0; first < n_groups; first += BLOCK_GROUPS) {
        const uint32_t n = n_groups - first < BLOCK_GROUPS ? n_groups - first : BLOCK_GROUPS;
        for (uint32_t g = 0; g < n; g++)
            sums_store(pairs->w_products[g],
                       widen(panel + (first + g) * pairs->panels.group_bytes + PANEL_SCALE_BYTES,
                             GROUP_LEN, pairs->wide + (size_t)g * GROUP_LEN * PANEL_ROWS));
        for (uint32_t t = 0; t < pairs->n_tokens; t += PAIRS_TILE)
            tile_groups(pairs, t, first, n, panel);
    }
}

void gemm_pairs(const struct gemm_part *part, const struct rounded *x)
{
    struct pairs pairs;
    pairs.part = part;
    pairs.x = x;
    pairs.panels = panels_of(part->gemm);
    pairs.n_tokens = part->token_end - part->token;
    assert(part->row % PANEL_ROWS == 0 && pairs.n_tokens <= TOKENS_MAX);
    const uint8_t *packed = part->gemm->w;
    for (pairs.row = part->row; pairs.row < part->row_end; pairs.row += PANEL_ROWS) {
        const uint8_t *panel = packed + pairs.row / PANEL_ROWS * pairs.panels.panel_bytes;
        if (pairs.panels.n_groups > 1)
            groups_run(&pairs, panel);
        else
            rows_run(&pairs, panel);
    }
}

#else
typedef int gemm_pairs_has_nothing_here;
#endif
