#include "kernels/cpu/attention/softmax.h"

#include <assert.h>

/* Sets the scores of keys that the row does not see to -inf. Returns the largest score, -inf if there is none. NaN: a
 * visible score is NaN, and no other is above -inf. */
static float largest_score(struct seen seen, float *scores)
{
    if (seen.first == seen.end)
        return -INFINITY;
    for (uint32_t j = 0; j < seen.first; j++)
        scores[j] = -INFINITY;
    for (uint32_t j = seen.end; j < TILE_KEYS; j++)
        scores[j] = -INFINITY;
    return row_maximum(scores, TILE_KEYS);
}

/* Turns the scores of one row into weights. */
static void row_weights(float largest, float keep, bool rounds, float *scores, float *sums)
{
    vec sum = vec_mul(vec_load(sums), vec_set(keep));
    for (uint32_t j = 0; j < TILE_KEYS; j += LANES) {
        vec weight = vec_exp(vec_sub(vec_load(scores + j), vec_set(largest)));
        vec_store(scores + j, weight);
        sum = vec_add(sum, weight);
    }
    vec_store(sums, sum);
    if (rounds)
        quantized_weights(TILE_KEYS, scores);
}

void softmax_tile(const struct softmax_rows *rows, float *keep_out, struct partial *partial)
{
    const bool has_ceiling = rows->rounds || rows->is_16bit;
    const uint32_t n_rows = rows->n_rows;
    float now[ROWS_MAX], lowered[ROWS_MAX + LANES];
    assert(n_rows <= ROWS_MAX);
    for (uint32_t r = 0; r < n_rows; r++) {
        now[r] = largest_score(rows->seen[r], rows->scores + (size_t)r * TILE_KEYS);
        float most = has_ceiling && now[r] != -INFINITY ? quantized_ceiling(now[r]) : now[r];
        float next = most > partial->largest[r] || isnan(most) ? most : partial->largest[r];
        lowered[r] = now[r] == -INFINITY ? 0 : partial->largest[r] - next;
        partial->largest[r] = next;
    }
    for (uint32_t r = 0; r < n_rows; r += LANES)
        vec_store(lowered + r, vec_exp(vec_load(lowered + r)));
    for (uint32_t r = 0; r < n_rows; r++) {
        float *row = rows->scores + (size_t)r * TILE_KEYS;
        keep_out[r] = lowered[r];
        if (now[r] == -INFINITY)
            memset(row, 0, TILE_KEYS * sizeof *row);
        else
            row_weights(partial->largest[r], keep_out[r], rows->rounds, row,
                        partial->sums + (size_t)r * LANES);
    }
}
