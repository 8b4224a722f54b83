#include "kernels/cpu/attention/attend_whole.h"

#include "kernels/cpu/attention/attend.h"
#include "kernels/cpu/attention/attend_half.h"
#include "kernels/cpu/attention/attend_tile.h"
#include "kernels/cpu/attention/attend_unseen.h"

#include <assert.h>

/* Writes the scores of the tile at start to stored, with rows of n floats. Keys that a row does not see get -inf. */
static void store_scores(const struct attend *attend, uint32_t start, size_t n, float *stored)
{
    struct seen seen[ROWS_MAX];
    struct tile tile;
    bool is_seen = attend_scores(attend, start, seen, &tile);
    for (uint32_t r = 0; r < attend->block->n_rows; r++, stored += n) {
        const float *scores = attend->scratch->scores + (size_t)r * TILE_KEYS;
        for (uint32_t j = 0; j < TILE_KEYS; j++) {
            bool has_score = is_seen && j >= seen[r].first && j < seen[r].end;
            stored[j] = has_score ? scores[j] : -INFINITY;
        }
    }
}

/* Turns a row of n scores into weights. */
static void stored_softmax(uint32_t n, enum attention_math math, float *scores, float *largest,
                           float *sums)
{
    float now = n > 0 ? row_maximum(scores, n) : -INFINITY;
    if (now == -INFINITY) {
        memset(scores, 0, n * sizeof *scores);
        return;
    }
    *largest = math == MATH_COMPUTE ? now : quantized_ceiling(now);
    vec sum = vec_zero();
    for (uint32_t j = 0; j < n; j += LANES) {
        vec weight = vec_exp(vec_sub(vec_load(scores + j), vec_set(*largest)));
        vec_store(scores + j, weight);
        sum = vec_add(sum, weight);
    }
    vec_store(sums, sum);
    if (math == MATH_FP8)
        quantized_weights(n, scores);
}

/* Adds P V of the tile at start. If a hidden V is not finite, the scores are computed again: they show which keys a row
 * does not see. */
static void multiply_values(const struct attend *attend, uint32_t start, size_t n,
                            const float *stored, struct partial *total)
{
    struct seen seen[ROWS_MAX];
    float keep[ROWS_MAX];
    struct tile tile;
    struct unseen unseen;
    const uint32_t n_rows = attend->block->n_rows;
    for (uint32_t r = 0; r < n_rows; r++) {
        seen[r] = attend_seen(attend, r, start);
        keep[r] = 1;
    }
    if (seen_together(seen, n_rows).end == 0)
        return;
    source_tile(&attend->source, start, &tile);
    bool has_unseen = unseen_find(attend, seen, &tile.v, &unseen);
    if (has_unseen && attend_scores(attend, start, seen, &tile))
        unseen_hide(attend, seen, &unseen);
    for (uint32_t r = 0; r < n_rows; r++, stored += n)
        memcpy(attend->scratch->scores + (size_t)r * TILE_KEYS, stored, TILE_KEYS * sizeof *stored);
    if (has_unseen)
        unseen_outputs(attend, &unseen, start, seen, keep, &tile, total);
    else
        attend_outputs(attend, start, seen, keep, &tile, total);
}

void attend_whole(const struct attend *attend, struct partial *total)
{
    const struct row_block *block = attend->block;
    const uint32_t first = block->first_key / TILE_KEYS * TILE_KEYS;
    const uint32_t end = whole_keys(block->end_key);
    const size_t n = end - first;
    float *stored = attend->scratch->stored;
    assert(stored && block->n_rows <= UNFUSED_ROWS);
    attend_clear(block->n_rows, attend->call->attention->host.config.head_dim, total);
    if (attend->half)
        attend->half->start();
    for (uint32_t start = first; start < end; start += TILE_KEYS)
        store_scores(attend, start, n, stored + (start - first));
    for (uint32_t r = 0; r < block->n_rows; r++)
        stored_softmax((uint32_t)n, attend->math, stored + r * n, &total->largest[r],
                       total->sums + (size_t)r * LANES);
    for (uint32_t start = first; start < end; start += TILE_KEYS)
        multiply_values(attend, start, n, stored + (start - first), total);
    if (attend->half)
        attend->half->finish();
}
