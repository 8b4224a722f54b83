#include "kernels/cpu/attend.h"

#include "kernels/cpu/tile.h"

#include <math.h>
#include <string.h>

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

static size_t scratch_parts(uint32_t head_dim, size_t parts_out[4])
{
    parts_out[0] = (size_t)head_dim * TILE_KEYS;
    parts_out[1] = (size_t)dim_padded(head_dim) * TILE_KEYS;
    parts_out[2] = (size_t)ROWS_MAX * dim_padded(head_dim);
    parts_out[3] = (size_t)ROWS_MAX * TILE_KEYS;
    return parts_out[0] + parts_out[1] + parts_out[2] + parts_out[3];
}

size_t attend_scratch_floats(uint32_t head_dim)
{
    size_t parts[4];
    return scratch_parts(head_dim, parts) + 2 * attend_partial_floats(head_dim, ROWS_MAX);
}

struct attend_scratch attend_scratch_at(float *memory, uint32_t head_dim)
{
    size_t parts[4];
    size_t n_floats = scratch_parts(head_dim, parts);
    struct attend_scratch scratch = {.k_t = memory};
    scratch.v = scratch.k_t + parts[0];
    scratch.q = scratch.v + parts[1];
    scratch.scores = scratch.q + parts[2];
    scratch.range = attend_partial_at(memory + n_floats, head_dim, ROWS_MAX);
    scratch.total = attend_partial_at(memory + n_floats + attend_partial_floats(head_dim, ROWS_MAX),
                                      head_dim, ROWS_MAX);
    return scratch;
}

static uint32_t row_token(const struct host_layer *layer, const struct attention_metadata *metadata,
                          const struct row_block *block, uint32_t row)
{
    return metadata->token_starts[block->sequence] + (block->row + row) / layer->group;
}

static size_t row_head(const struct host_layer *layer, const struct row_block *block, uint32_t row)
{
    return block->kv_head * layer->group + (block->row + row) % layer->group;
}

static uint32_t first_key(const struct host_layer *layer, uint32_t position)
{
    return layer->window != 0 && position >= layer->window ? position - layer->window + 1 : 0;
}

void attend_keys(const struct host_layer *layer, const struct attention_metadata *metadata,
                 const struct row_block *block, uint32_t *first_out, uint32_t *end_out)
{
    *first_out = first_key(layer, metadata->positions[row_token(layer, metadata, block, 0)]);
    *end_out = metadata->positions[row_token(layer, metadata, block, block->n_rows - 1)] + 1;
}

void attend_load_q(const struct host_layer *layer, const struct attention_metadata *metadata,
                   const struct attention_io *io, const struct row_block *block,
                   struct attend_scratch *scratch)
{
    for (uint32_t r = 0; r < block->n_rows; r++) {
        const float *q = io->qkv + row_token(layer, metadata, block, r) * io->qkv_stride +
                         row_head(layer, block, r) * layer->head_dim;
        float *scaled = scratch->q + (size_t)r * layer->head_dim;
        for (uint32_t i = 0; i < layer->head_dim; i++)
            scaled[i] = q[i] * layer->scale;
    }
}

/* Keys first .. end - 1 of a tile that a row sees, counted from the tile's start. */
struct seen {
    uint32_t first, end; /* equal: none */
};

static struct seen row_seen(const struct host_layer *layer, uint32_t position, uint32_t tile_start)
{
    uint32_t first = first_key(layer, position);
    uint32_t end = position + 1;
    first = first > tile_start ? first - tile_start : 0;
    end = end > tile_start ? end - tile_start : 0;
    end = end < TILE_KEYS ? end : TILE_KEYS;
    return (struct seen){first < end ? first : end, end};
}

/* One row's scores become weights; what it does not see becomes 0. Returns what the row's earlier
 * sum and output must be multiplied by. */
static float row_softmax(struct seen seen, float *scores, float *largest, float *sums)
{
    if (seen.first == seen.end) {
        memset(scores, 0, TILE_KEYS * sizeof *scores);
        return 1;
    }
    for (uint32_t j = 0; j < seen.first; j++)
        scores[j] = -INFINITY;
    for (uint32_t j = seen.end; j < TILE_KEYS; j++)
        scores[j] = -INFINITY;
    vec most = vec_load(scores);
    for (uint32_t j = LANES; j < TILE_KEYS; j += LANES)
        most = vec_max(most, vec_load(scores + j));
    float now = vec_largest(most);
    float next = now > *largest || isnan(now) ? now : *largest;
    float keep[LANES];
    vec_store(keep, vec_exp(vec_set(*largest - next)));
    vec sum = vec_mul(vec_load(sums), vec_set(keep[0]));
    for (uint32_t j = 0; j < TILE_KEYS; j += LANES) {
        vec weight = vec_exp(vec_sub(vec_load(scores + j), vec_set(next)));
        vec_store(scores + j, weight);
        sum = vec_add(sum, weight);
    }
    vec_store(sums, sum);
    *largest = next;
    return keep[0];
}

/* Consecutive rows that go through the register tiles together: the last two groups are evened
 * out, since a single row cannot hide the latency of its sums. */
static uint32_t group_rows(uint32_t n_left)
{
    if (n_left <= TILE_ROWS)
        return n_left;
    return n_left < 2 * TILE_ROWS ? (n_left + 1) / 2 : TILE_ROWS;
}

static void tile_scores(const struct host_layer *layer, const struct seen *seen, uint32_t n_rows,
                        struct attend_scratch *scratch)
{
    for (uint32_t r = 0, n; r < n_rows; r += n) {
        n = group_rows(n_rows - r);
        uint32_t end = 0;
        for (uint32_t i = r; i < r + n; i++)
            end = seen[i].first < seen[i].end && seen[i].end > end ? seen[i].end : end;
        if (end > 0)
            tile_qk(n, end, layer->head_dim, scratch->q + (size_t)r * layer->head_dim, scratch->k_t,
                    scratch->scores + (size_t)r * TILE_KEYS);
    }
}

static void tile_outputs(const struct host_layer *layer, const struct seen *seen, const float *keep,
                         uint32_t n_rows, const struct attend_scratch *scratch,
                         const struct tile_values *values, struct partial *partial)
{
    uint32_t dim = dim_padded(layer->head_dim);
    for (uint32_t r = 0, n; r < n_rows; r += n) {
        n = group_rows(n_rows - r);
        uint32_t first = TILE_KEYS;
        uint32_t end = 0;
        for (uint32_t i = r; i < r + n; i++) {
            if (seen[i].first == seen[i].end)
                continue;
            first = seen[i].first < first ? seen[i].first : first;
            end = seen[i].end > end ? seen[i].end : end;
        }
        if (first == TILE_KEYS)
            continue;
        struct tile_weighted op = {.values = values,
                                   .weights = scratch->scores + (size_t)r * TILE_KEYS,
                                   .keep = keep + r,
                                   .out = partial->out + (size_t)r * dim,
                                   .first = first,
                                   .end = end,
                                   .dim = dim};
        tile_pv(n, &op);
    }
}

static void attend_tile(const struct host_layer *layer, const struct tile_source *source,
                        const uint32_t *positions, uint32_t n_rows, uint32_t tile_start,
                        struct attend_scratch *scratch, const struct tile_values *values,
                        struct partial *partial)
{
    struct seen seen[ROWS_MAX];
    float keep[ROWS_MAX];
    for (uint32_t r = 0; r < n_rows; r++)
        seen[r] = row_seen(layer, positions[r], tile_start);
    tile_scores(layer, seen, n_rows, scratch);
    for (uint32_t r = 0; r < n_rows; r++)
        keep[r] = row_softmax(seen[r], scratch->scores + (size_t)r * TILE_KEYS,
                              &partial->largest[r], partial->sums + (size_t)r * LANES);
    tile_prefetch_v(source, tile_start + TILE_KEYS);
    tile_outputs(layer, seen, keep, n_rows, scratch, values, partial);
}

void attend_clear(uint32_t n_rows, uint32_t head_dim, struct partial *partial)
{
    for (uint32_t r = 0; r < n_rows; r++)
        partial->largest[r] = -INFINITY;
    memset(partial->sums, 0, (size_t)n_rows * LANES * sizeof *partial->sums);
    memset(partial->out, 0, (size_t)n_rows * dim_padded(head_dim) * sizeof *partial->out);
}

void attend_range(const struct host_layer *layer, const struct attention_metadata *metadata,
                  const struct row_block *block, uint32_t range, struct attend_scratch *scratch,
                  struct partial *partial)
{
    uint32_t positions[ROWS_MAX];
    uint32_t first, end;
    attend_keys(layer, metadata, block, &first, &end);
    for (uint32_t r = 0; r < block->n_rows; r++)
        positions[r] = metadata->positions[row_token(layer, metadata, block, r)];
    struct tile_source source = {.kv = &metadata->kv,
                                 .block_ids = metadata->sequences[block->sequence].block_ids,
                                 .layer_index = layer->layer_index,
                                 .kv_head = block->kv_head,
                                 .head_dim = layer->head_dim,
                                 .cache = layer->cache,
                                 .n_keys = end};
    attend_clear(block->n_rows, layer->head_dim, partial);
    uint32_t range_end = (range + 1) * RANGE_KEYS < end ? (range + 1) * RANGE_KEYS : end;
    for (uint32_t start = range * RANGE_KEYS; start < range_end; start += TILE_KEYS) {
        if (start + TILE_KEYS <= first)
            continue;
        struct tile_values values;
        tile_load(&source, start, block->n_rows, scratch->k_t, scratch->v, &values);
        attend_tile(layer, &source, positions, block->n_rows, start, scratch, &values, partial);
    }
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

void attend_store(const struct host_layer *layer, const struct attention_metadata *metadata,
                  const struct attention_io *io, const struct row_block *block,
                  const struct partial *total)
{
    uint32_t dim = dim_padded(layer->head_dim);
    for (uint32_t r = 0; r < block->n_rows; r++) {
        float *output = io->output + row_token(layer, metadata, block, r) * io->output_stride +
                        row_head(layer, block, r) * layer->head_dim;
        float sum = vec_sum(vec_load(total->sums + (size_t)r * LANES));
        float factor = total->largest[r] == -INFINITY ? 0 : 1 / sum;
        for (uint32_t i = 0; i < layer->head_dim; i++)
            output[i] = total->out[(size_t)r * dim + i] * factor;
    }
}
