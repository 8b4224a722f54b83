#include "kernels/cpu/attention/attend.h"

#include "kernels/cpu/attention/attend_half.h"
#include "kernels/cpu/attention/attend_tile.h"
#include "kernels/cpu/attention/attend_unseen.h"
#include "kernels/cpu/attention/score.h"
#include "kernels/cpu/attention/softmax.h"

#include <assert.h>

size_t attend_partial_floats(uint32_t head_dim, size_t n_rows)
{
    return n_rows * (LANES + LANES + dim_padded(head_dim)); /* largest takes a cache line */
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
    assert(block->n_rows >= 1 && block->n_rows <= ROWS_MAX);
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
    const struct softmax_rows rows = {
        .n_rows = attend->block->n_rows,
        .rounds = attend->math == MATH_FP8 || attend->math == MATH_INT8_PV_FP8,
        .is_16bit = attend->half != NULL,
        .seen = seen,
        .scores = attend->scratch->scores,
    };
    softmax_tile(&rows, keep, partial);
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
    assert(range * RANGE_KEYS < end && "a range without keys is no task");
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
    assert(next->out != total->out);
    for (uint32_t r = 0; r < n_rows; r++) {
        if (next->largest[r] == -INFINITY)
            continue;
        if (total->largest[r] == -INFINITY)
            copy_row(next, r, dim, total);
        else
            merge_row(next, r, dim, total);
    }
}
