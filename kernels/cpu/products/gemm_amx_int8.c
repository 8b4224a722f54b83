/*
 * gemm_amx_int8 - multiplies packed INT8 weights with the matrix unit: tiles of 16 tokens x 16 rows.
 *
 * A packed group has the layout of the unit's second operand: 64 bytes are four elements of 16
 * rows. Sums are whole numbers, so the bits are those of the vectors in gemm_int8.
 */
#include "kernels/cpu/cpu.h"

#ifdef HAS_AMX_INT8

#include "kernels/cpu/products/gemm_amx_int8.h"
#include "kernels/cpu/vector/amx.h"

#include <assert.h>

enum { TILE = 16 };

/* The sums of one 16 x 16 tile, and the outputs computed from them. */
struct outputs {
    const struct gemm_part *part;
    const struct panels *panels;
    const struct rounded *x;
};

static void finish_rows(const struct outputs *out, uint32_t token, uint32_t row, const uint8_t *w,
                        const int32_t *sums, size_t sums_stride)
{
    const struct rounded *x = out->x;
    uint32_t n = out->part->token_end - out->part->token - token;
    vec w_scale = vec_load((const float *)(const void *)w);
    vec y[TILE];
    for (uint32_t m = 0; m < TILE; m++) {
        __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums + m * sums_stride),
                                       _mm512_set1_epi32(x->corrections[token + m]));
        vec scale = vec_mul(w_scale, vec_set(x->scales[token + m]));
        y[m] = vec_fma(_mm512_cvtepi32_ps(sum), scale, vec_zero());
    }
    gemm_panels_store(out->part->gemm, out->part->token + token, n < TILE ? n : TILE, row, 1,
                      PANEL_ROWS, y);
}

/* Computes 32 tokens x 32 rows: each loaded tile is used twice. */
static void square(const struct outputs *out, uint32_t token, uint32_t row, const uint8_t *w)
{
    const struct rounded *x = out->x;
    const size_t panel_bytes = out->panels->panel_bytes;
    const int8_t *a = x->counts + token * x->stride;
    const uint8_t *b = w + PANEL_SCALE_BYTES;
    _Alignas(64) int32_t sums[2 * TILE][2 * TILE];
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t k = 0; k < out->panels->group_len; k += 64) {
        _tile_loadd(4, a + k, x->stride);
        _tile_loadd(5, a + TILE * x->stride + k, x->stride);
        _tile_loadd(6, b + (size_t)k * PANEL_ROWS, 64);
        _tile_dpbsud(0, 4, 6);
        _tile_dpbsud(2, 5, 6);
        _tile_loadd(7, b + panel_bytes + (size_t)k * PANEL_ROWS, 64);
        _tile_dpbsud(1, 4, 7);
        _tile_dpbsud(3, 5, 7);
    }
    _tile_stored(0, sums, sizeof sums[0]);
    _tile_stored(1, &sums[0][TILE], sizeof sums[0]);
    _tile_stored(2, sums[TILE], sizeof sums[0]);
    _tile_stored(3, &sums[TILE][TILE], sizeof sums[0]);
    for (uint32_t i = 0; i < 4; i++)
        finish_rows(out, token + i / 2 * TILE, row + i % 2 * TILE, w + i % 2 * panel_bytes,
                    &sums[i / 2 * TILE][i % 2 * TILE], 2 * TILE);
}

static void single(const struct outputs *out, uint32_t token, uint32_t row, const uint8_t *w)
{
    const struct rounded *x = out->x;
    const int8_t *a = x->counts + token * x->stride;
    _Alignas(64) int32_t sums[TILE][TILE];
    _tile_zero(0);
    for (uint32_t k = 0; k < out->panels->group_len; k += 64) {
        _tile_loadd(4, a + k, x->stride);
        _tile_loadd(6, w + PANEL_SCALE_BYTES + (size_t)k * PANEL_ROWS, 64);
        _tile_dpbsud(0, 4, 6);
    }
    _tile_stored(0, sums, sizeof sums[0]);
    finish_rows(out, token, row, w, &sums[0][0], TILE);
}

static void rows_run(const struct outputs *out)
{
    const struct gemm_part *part = out->part;
    const uint32_t n = part->token_end - part->token;
    const uint8_t *packed = part->gemm->w;
    for (uint32_t row = part->row; row < part->row_end;) {
        const uint8_t *w = packed + row / PANEL_ROWS * out->panels->panel_bytes;
        bool is_two = row + 2 * TILE <= part->row_end;
        uint32_t token = 0;
        for (; is_two && token + TILE < n; token += 2 * TILE)
            square(out, token, row, w);
        for (; token < n; token += TILE) {
            single(out, token, row, w);
            if (is_two)
                single(out, token, row + TILE, w + out->panels->panel_bytes);
        }
        row += is_two ? 2 * TILE : TILE;
    }
}

/* Adds the sums of a group, which the unit has stored, to the float sums of 16 tokens. */
INLINE void group_add(const struct outputs *out, uint32_t token, uint32_t g, const uint8_t *group,
                      const int32_t (*sums)[TILE], vec *y)
{
    const uint32_t n_groups = out->panels->n_groups;
    vec w_scale = vec_load((const float *)(const void *)group);
    UNROLL
    for (uint32_t m = 0; m < TILE; m++) {
        size_t index = (size_t)(token + m) * n_groups + g;
        __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums[m]),
                                       _mm512_set1_epi32(out->x->corrections[index]));
        vec scale = vec_mul(w_scale, vec_set(out->x->scales[index]));
        y[m] = vec_fma(_mm512_cvtepi32_ps(sum), scale, y[m]);
    }
}

static void grouped(const struct outputs *out, uint32_t token, uint32_t row, const uint8_t *w)
{
    const struct rounded *x = out->x;
    const uint32_t n = out->part->token_end - out->part->token - token;
    const int8_t *a = x->counts + token * x->stride;
    _Alignas(64) int32_t sums[2][TILE][TILE];
    vec y[TILE];
    UNROLL
    for (uint32_t m = 0; m < TILE; m++)
        y[m] = vec_zero();
    for (uint32_t g = 0; g < out->panels->n_groups; g++) {
        const uint8_t *group = w + g * out->panels->group_bytes;
        _tile_zero(0);
        _tile_loadd(4, a + (size_t)g * GROUP_LEN, x->stride);
        _tile_loadd(6, group + PANEL_SCALE_BYTES, 64);
        _tile_dpbsud(0, 4, 6);
        _tile_stored(0, sums[g % 2], sizeof sums[0][0]);
        if (g > 0)
            group_add(out, token, g - 1, group - out->panels->group_bytes,
                      (const int32_t(*)[TILE])sums[(g - 1) % 2], y);
    }
    uint32_t last = out->panels->n_groups - 1;
    group_add(out, token, last, w + last * out->panels->group_bytes,
              (const int32_t(*)[TILE])sums[last % 2], y);
    gemm_panels_store(out->part->gemm, out->part->token + token, n < TILE ? n : TILE, row, 1,
                      PANEL_ROWS, y);
}

static void groups_run(const struct outputs *out)
{
    const struct gemm_part *part = out->part;
    const uint8_t *packed = part->gemm->w;
    for (uint32_t row = part->row; row < part->row_end; row += TILE)
        for (uint32_t token = 0; token < part->token_end - part->token; token += TILE)
            grouped(out, token, row, packed + row / PANEL_ROWS * out->panels->panel_bytes);
}

void gemm_amx_int8(const struct gemm_part *part, const struct rounded *x)
{
    struct panels panels = panels_of(part->gemm);
    struct outputs out = {.part = part, .panels = &panels, .x = x};
    bool is_grouped = panels.n_groups > 1;
    assert(part->row % PANEL_ROWS == 0);
    amx_start(is_grouped ? GROUP_LEN : 64, TILE);
    if (is_grouped)
        groups_run(&out);
    else
        rows_run(&out);
    amx_finish();
}

#else
typedef int gemm_amx_int8_has_nothing_here;
#endif
