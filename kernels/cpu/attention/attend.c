#include "kernels/cpu/attention/attend.h"

#include "kernels/cpu/attention/attend_half.h"
#include "kernels/cpu/attention/attend_unseen.h"
#include "kernels/cpu/attention/score.h"

size_t attend_partial_floats(uint32_t head_dim, size_t n_rows)
{
    return n_rows * (LANES + LANES + dim_padded(head_dim)); /* largest takes a line of its own */
}

struct partial attend_partial_at(float *memory, uint32_t head_dim, size_t n_rows)
{
    return (struct partial){.sums = memory,
                            .out = memory + n_rows * LANES,
                            .largest = memory + n_rows * (LANES + dim_padded(head_dim))};
}

/* The first key that the first query of the block's sequence sees. */
static uint32_t oldest_key(const struct attention_call *call, const struct row_block *block)
{
    struct row_block first = *block;
    first.row = 0;
    return query_row_at(call, &first, 0).first;
}

void attend_init(const struct attention_call *call, const struct row_block *block,
                 const char *staged, const struct attend_scratch *scratch,
                 struct attend *attend_out)
{
    const uint32_t head_dim = call->attention->host.config.head_dim;
    attend_out->call = call;
    attend_out->block = block;
    attend_out->scratch = scratch;
    attend_out->math = block_math(call, block);
    attend_out->half = half_math_of(attend_out->math);
    attend_out->changes_scores = score_needed(call, block);
    source_init(call, block, staged, scratch->gathered, &attend_out->source);
    for (uint32_t r = 0; r < block->n_rows; r++) {
        attend_out->rows[r] = query_row_at(call, block, r);
        query_load(call, block, &attend_out->rows[r], scratch->q + (size_t)r * head_dim);
    }
    attend_out->is_int8 = attention_math_is_int8(attend_out->math);
    attend_out->oldest = attend_out->is_int8 ? oldest_key(call, block) : 0;
    if (attend_out->is_int8)
        quantized_load(block->n_rows, head_dim, scratch->q, scratch->quantized);
    if (attend_out->half)
        attend_out->half->load(attend_out);
}

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

/* Consecutive rows that go through the register tiles together: the last two groups are evened
 * out, since a single row cannot hide the latency of its sums. */
static uint32_t group_rows(uint32_t n_left)
{
    if (n_left <= TILE_ROWS_MAX)
        return n_left;
    return n_left < 2 * TILE_ROWS ? (n_left + 1) / 2 : TILE_ROWS;
}

void attend_multiply_keys(const struct attend *attend, const struct seen *seen,
                          struct tile_ahead *ahead)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    for (uint32_t r = 0, n; r < attend->block->n_rows; r += n) {
        n = group_rows(attend->block->n_rows - r);
        struct seen group = seen_together(seen + r, n);
        if (group.end > 0)
            tile_qk(n, group.end, head_dim, scratch->q + (size_t)r * head_dim, scratch->k_t, ahead,
                    scratch->scores + (size_t)r * TILE_KEYS);
    }
}

static void change_scores(const struct attend *attend, uint32_t start, const struct seen *seen)
{
    for (uint32_t r = 0; r < attend->block->n_rows; r++)
        if (seen[r].first < seen[r].end)
            score_change(attend->call, attend->block, &attend->rows[r], start, seen[r].first,
                         seen[r].end, attend->scratch->scores + (size_t)r * TILE_KEYS);
}

/* Keys of the tile at start that are there. */
static uint32_t tile_n_keys(const struct attend *attend, uint32_t start)
{
    uint32_t n_keys = attend->source.n_keys - start;
    return n_keys < TILE_KEYS ? n_keys : TILE_KEYS;
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
    } else {
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

/* What a row does not see becomes -inf. Returns the largest score, -inf if there is none; NaN: it sees one. */
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

/* One row's scores become weights. */
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

/* The scores of a tile become weights, 0 where a row does not see. keep_out: what the rows' earlier
 * sums and outputs must be multiplied by. */
static void softmax(const struct attend *attend, const struct seen *seen, float *keep_out,
                    struct partial *partial)
{
    const bool rounds = attend->math == MATH_FP8 || attend->math == MATH_INT8_PV_FP8;
    const bool has_ceiling = rounds || attend->half;
    const uint32_t n_rows = attend->block->n_rows;
    float *scores = attend->scratch->scores;
    float now[ROWS_MAX], lowered[ROWS_MAX + LANES];
    for (uint32_t r = 0; r < n_rows; r++) {
        now[r] = largest_score(seen[r], scores + (size_t)r * TILE_KEYS);
        float most = has_ceiling && now[r] != -INFINITY ? quantized_ceiling(now[r]) : now[r];
        float next = most > partial->largest[r] || isnan(most) ? most : partial->largest[r];
        lowered[r] = now[r] == -INFINITY ? 0 : partial->largest[r] - next;
        partial->largest[r] = next;
    }
    for (uint32_t r = 0; r < n_rows; r += LANES)
        vec_store(lowered + r, vec_exp(vec_load(lowered + r)));
    for (uint32_t r = 0; r < n_rows; r++) {
        float *row = scores + (size_t)r * TILE_KEYS;
        keep_out[r] = lowered[r];
        if (now[r] == -INFINITY)
            memset(row, 0, TILE_KEYS * sizeof *row);
        else
            row_weights(partial->largest[r], keep_out[r], rounds, row,
                        partial->sums + (size_t)r * LANES);
    }
}

/* Widening V pays when more than one group of rows reads it; a row of half a vector must be padded,
 * lest its end be read past. */
static bool needs_widening(const struct attend *attend, enum dtype dtype)
{
    if (attend->call->attention->host.config.head_dim % LANES != 0)
        return true;
    return dtype != DTYPE_F32 && attend->block->n_rows > TILE_ROWS_MAX;
}

void attend_multiply_values(const struct attend *attend, const struct seen *seen, const float *keep,
                            const struct tile_rows *v, struct tile_ahead *ahead,
                            struct partial *partial)
{
    const uint32_t dim = dim_padded(attend->call->attention->host.config.head_dim);
    for (uint32_t r = 0, n; r < attend->block->n_rows; r += n) {
        n = group_rows(attend->block->n_rows - r);
        struct seen group = seen_together(seen + r, n);
        if (group.end == 0)
            continue;
        struct tile_weighted op = {.v = v,
                                   .ahead = ahead,
                                   .weights = attend->scratch->scores + (size_t)r * TILE_KEYS,
                                   .keep = keep + r,
                                   .out = partial->out + (size_t)r * dim,
                                   .first = group.first,
                                   .end = group.end,
                                   .dim = dim};
        tile_pv(n, &op);
    }
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

static void attend_tile(const struct attend *attend, uint32_t start, struct partial *partial)
{
    struct seen seen[ROWS_MAX];
    float keep[ROWS_MAX];
    struct tile tile;
    struct unseen unseen;
    if (!attend_scores(attend, start, seen, &tile))
        return;
    bool has_unseen = unseen_find(attend, seen, &tile.v, &unseen);
    if (has_unseen)
        unseen_hide(attend, seen, &unseen);
    softmax(attend, seen, keep, partial);
    if (has_unseen)
        unseen_outputs(attend, &unseen, start, seen, keep, &tile, partial);
    else
        attend_outputs(attend, start, seen, keep, &tile, partial);
}

void attend_clear(uint32_t n_rows, uint32_t head_dim, struct partial *partial)
{
    for (uint32_t r = 0; r < n_rows; r++)
        partial->largest[r] = -INFINITY;
    memset(partial->sums, 0, (size_t)n_rows * LANES * sizeof *partial->sums);
    memset(partial->out, 0, (size_t)n_rows * dim_padded(head_dim) * sizeof *partial->out);
}

void attend_range(const struct attend *attend, uint32_t range, struct partial *partial)
{
    const struct row_block *block = attend->block;
    uint32_t end = (range + 1) * RANGE_KEYS < block->end_key ? (range + 1) * RANGE_KEYS
                                                             : block->end_key;
    attend_clear(block->n_rows, attend->call->attention->host.config.head_dim, partial);
    if (attend->half)
        attend->half->start();
    for (uint32_t start = range * RANGE_KEYS; start < end; start += TILE_KEYS)
        attend_tile(attend, start, partial);
    if (attend->half)
        attend->half->finish();
}

static void copy_row(const struct partial *from, uint32_t row, uint32_t dim, struct partial *to)
{
    to->largest[row] = from->largest[row];
    memcpy(to->sums + (size_t)row * LANES, from->sums + (size_t)row * LANES,
           LANES * sizeof *to->sums);
    memcpy(to->out + (size_t)row * dim, from->out + (size_t)row * dim, dim * sizeof *to->out);
}

static void merge_row(const struct partial *next, uint32_t row, uint32_t dim, struct partial *total)
{
    float largest = next->largest[row] > total->largest[row] || isnan(next->largest[row])
                        ? next->largest[row]
                        : total->largest[row];
    vec keep = vec_exp(vec_set(total->largest[row] - largest));
    vec gain = vec_exp(vec_set(next->largest[row] - largest));
    total->largest[row] = largest;
    float *sums = total->sums + (size_t)row * LANES;
    vec_store(sums, vec_fma(vec_load(next->sums + (size_t)row * LANES), gain,
                            vec_mul(vec_load(sums), keep)));
    float *out = total->out + (size_t)row * dim;
    for (uint32_t i = 0; i < dim; i += LANES)
        vec_store(out + i, vec_fma(vec_load(next->out + (size_t)row * dim + i), gain,
                                   vec_mul(vec_load(out + i), keep)));
}

void attend_merge(uint32_t n_rows, uint32_t head_dim, const struct partial *next,
                  struct partial *total)
{
    uint32_t dim = dim_padded(head_dim);
    for (uint32_t r = 0; r < n_rows; r++) {
        if (next->largest[r] == -INFINITY)
            continue;
        if (total->largest[r] == -INFINITY)
            copy_row(next, r, dim, total);
        else
            merge_row(next, r, dim, total);
    }
}
