#ifndef __AVX512BF16__

#include "kernels/cpu/attend_bf16.h"

void attend_bf16_start(void)
{
}

void attend_bf16_finish(void)
{
}

/* To nearest even; NaN stays NaN. */
static void round_floats(float *floats, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, floats + i, sizeof bits);
        uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
        bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
        bits = (is_nan ? bits : rounded) & 0xffff0000;
        memcpy(floats + i, &bits, sizeof bits);
    }
}

/* BF16 holds the other types' elements exactly. */
static bool is_rounded(enum dtype dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F16;
}

void attend_bf16_load(const struct attend *attend)
{
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    round_floats(attend->scratch->q, (size_t)attend->block->n_rows * head_dim);
}

void attend_bf16_scores(const struct attend *attend, uint32_t n_keys, const struct seen *seen,
                        const struct tile_rows *k, struct tile_ahead *ahead)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    tile_transpose(k, n_keys, head_dim, ahead, scratch->k_t);
    if (is_rounded(k->dtype))
        round_floats(scratch->k_t, (size_t)head_dim * TILE_KEYS);
    attend_multiply_keys(attend, seen, ahead);
}

void attend_bf16_outputs(const struct attend *attend, const struct seen *seen, const float *keep,
                         const struct tile_rows *v, struct tile_ahead *ahead,
                         struct partial *partial)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const uint32_t n_rows = attend->block->n_rows;
    struct tile_rows wide;
    round_floats(scratch->scores, (size_t)n_rows * TILE_KEYS);
    tile_widen(v, seen_together(seen, n_rows).end, head_dim, ahead, scratch->v, &wide);
    if (is_rounded(v->dtype))
        round_floats(scratch->v, (size_t)TILE_KEYS * dim_padded(head_dim));
    attend_multiply_values(attend, seen, keep, &wide, ahead, partial);
}

#else
typedef int attend_bf16_rounded_has_nothing_here;
#endif
