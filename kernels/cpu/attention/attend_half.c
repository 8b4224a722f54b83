#include "kernels/cpu/attention/attend_half.h"

#include "kernels/cpu/attention/attend_products.h"

#include <assert.h>

static void do_nothing(void)
{
}

static void round_floats(enum attention_math math, float *floats, size_t n)
{
    if (math == MATH_BF16)
        for (size_t i = 0; i < n; i++)
            floats[i] = round_bf16(floats[i]);
    else
        for (size_t i = 0; i < n; i++)
            floats[i] = round_f16(floats[i]);
}

/* Rounds a tile of the cache. Both types hold 8-bit elements exactly, so these are not rounded. */
static void round_tile(enum attention_math math, enum dtype dtype, float *floats, size_t n)
{
    enum dtype half;
    if (attention_math_half(math, &half) && dtype != half && !dtype_is_8bit(dtype))
        round_floats(math, floats, n);
}

static void load(const struct attend *attend)
{
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    assert(attend->math == MATH_BF16 || attend->math == MATH_FP16);
    round_floats(attend->math, attend->scratch->q, (size_t)attend->block->n_rows * head_dim);
}

static void scores(const struct attend *attend, uint32_t n_keys, const struct seen *seen,
                   const struct tile_rows *k, struct tile_ahead *ahead)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    tile_transpose(k, n_keys, head_dim, ahead, scratch->k_t);
    round_tile(attend->math, k->dtype, scratch->k_t, (size_t)head_dim * TILE_KEYS);
    attend_multiply_keys(attend, seen, ahead);
}

static void outputs(const struct attend *attend, const struct seen *seen, const float *keep,
                    const struct tile_rows *v, struct tile_ahead *ahead, struct partial *partial)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const uint32_t n_rows = attend->block->n_rows;
    struct tile_rows wide;
    round_floats(attend->math, scratch->scores, (size_t)n_rows * TILE_KEYS);
    tile_widen(v, seen_together(seen, n_rows).end, head_dim, ahead, scratch->v, &wide);
    round_tile(attend->math, v->dtype, scratch->v, (size_t)TILE_KEYS * dim_padded(head_dim));
    attend_multiply_values(attend, seen, keep, &wide, ahead, partial);
}

const struct half_math *half_math_of(enum attention_math math)
{
    static const struct half_math rounded = {do_nothing, do_nothing, load, scores, outputs};
    enum dtype half;
#ifdef PACKED_MATH
    if (math == PACKED_MATH)
        return &half_math_packed;
#endif
    return attention_math_half(math, &half) ? &rounded : NULL;
}
