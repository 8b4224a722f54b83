#include "kernels/cpu/attention/attend_tile.h"

#include "kernels/cpu/attention/attend_half.h"
#include "kernels/cpu/attention/attend_products.h"
#include "kernels/cpu/attention/score.h"

#include <assert.h>

struct seen attend_seen(const struct attend *attend, uint32_t r, uint32_t start)
{
    const struct query_row *row = &attend->rows[r];
    uint32_t first = row->first > start ? row->first - start : 0;
    uint32_t end = row->end > start ? row->end - start : 0;
    end = end < TILE_KEYS ? end : TILE_KEYS;
    if (start >= row->absent && start + TILE_KEYS <= row->present)
        first = end;
    return (struct seen){first < end ? first : end, end};
}

static void change_scores(const struct attend *attend, uint32_t start, const struct seen *seen)
{
    for (uint32_t r = 0; r < attend->block->n_rows; r++)
        if (seen[r].first < seen[r].end)
            score_change(attend->call, attend->block, &attend->rows[r], start, seen[r].first,
                         seen[r].end, attend->scratch->scores + (size_t)r * TILE_KEYS);
}

/* The number of existing keys in the tile at start. */
static uint32_t tile_n_keys(const struct attend *attend, uint32_t start)
{
    assert(start % TILE_KEYS == 0 && start < attend->source.n_keys);
    uint32_t n_keys = attend->source.n_keys - start;
    return n_keys < TILE_KEYS ? n_keys : TILE_KEYS;
}

/* Q K of rows that are few; false: there are too many. */
static bool few_scores(const struct attend *attend, uint32_t n_keys, struct tile *tile)
{
#ifdef TILE_HAS_FEW
    const uint32_t n_rows = attend->block->n_rows;
    const struct tile_few_keys op = {.k = &tile->k,
                                     .ahead = &tile->ahead,
                                     .q = attend->scratch->q,
                                     .packed = attend->scratch->k_t,
                                     .scores = attend->scratch->scores,
                                     .n_keys = n_keys,
                                     .head_dim = attend->call->attention->host.config.head_dim};
    if (n_rows > TILE_FEW_ROWS || attend->is_int8)
        return false;
    tile_few(n_rows, &op);
    return true;
#else
    (void)attend, (void)n_keys, (void)tile;
    return false;
#endif
}

bool attend_scores(const struct attend *attend, uint32_t start, struct seen *seen_out,
                   struct tile *tile_out)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const uint32_t n_rows = attend->block->n_rows;
    const uint32_t n_keys = tile_n_keys(attend, start);
    for (uint32_t r = 0; r < n_rows; r++)
        seen_out[r] = attend_seen(attend, r, start);
    if (seen_together(seen_out, n_rows).end == 0)
        return false;
    source_tile(&attend->source, start, tile_out);
    if (attend->half) {
        attend->half->scores(attend, n_keys, seen_out, &tile_out->k, &tile_out->ahead);
    } else if (!few_scores(attend, n_keys, tile_out)) {
        tile_transpose(&tile_out->k, n_keys, head_dim, &tile_out->ahead, scratch->k_t);
        if (attend->is_int8)
            quantized_qk(n_rows, start < attend->oldest ? attend->oldest - start : 0, n_keys,
                         head_dim, scratch->q, scratch->k_t, scratch->quantized, scratch->scores);
        else
            attend_multiply_keys(attend, seen_out, &tile_out->ahead);
    }
    if (attend->changes_scores)
        change_scores(attend, start, seen_out);
    return true;
}

/* Widening V is faster if many rows read it. If head_dim is no multiple of LANES, V must be widened:
 * a vector load would read past the end of a row. */
static bool needs_widening(const struct attend *attend, enum dtype dtype)
{
    if (attend->call->attention->host.config.head_dim % LANES != 0)
        return true;
    return dtype != DTYPE_F32 && attend->block->n_rows > TILE_NARROW_ROWS;
}

void attend_outputs(const struct attend *attend, uint32_t start, const struct seen *seen,
                    const float *keep, struct tile *tile, struct partial *partial)
{
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    if (attend->half) {
        attend->half->outputs(attend, seen, keep, &tile->v, &tile->ahead, partial);
        return;
    }
    if (needs_widening(attend, tile->v.dtype))
        tile_widen(&tile->v, tile_n_keys(attend, start), head_dim, &tile->ahead, attend->scratch->v,
                   &tile->v);
    attend_multiply_values(attend, seen, keep, &tile->v, &tile->ahead, partial);
}
