/*
 * latent - the back end of kernels/latent.h on the CPU, with the tiles of attention.
 *
 *     row block    LATENT_ROWS rows (tokens and heads, heads first) of one sequence: they share the loading and transposition of
 *                  each tile of latents, which is K and V
 *     range        RANGE_KEYS keys at fixed positions, tile after tile; ranges are merged in order, as those of attention
 *
 * With enough row blocks for all threads a task is a row block, else a range of one: then waves of ranges are computed side by side
 * and merged. Rows of a token are multiplied together and with no key that the token does not see.
 *
 * Bound: multiply-adds; a row block reads a latent once.
 */
#include "kernels/cpu/attention/attend.h"
#include "kernels/cpu/attention/softmax.h"
#include "kernels/cpu/parallel.h"
#include "kernels/latent_parts.h"

#include <assert.h>
#include <stdatomic.h>

enum {
    LATENT_ROWS = 32,
    WRITE_ROWS = 16, /* rows of the cache that one task writes */
    WORK_OF_WRITE = 4,
    ALIGNED_FLOATS = 16,
    BLOCKS_A_THREAD = 2, /* with fewer row blocks, ranges are the tasks */
    SLOTS_A_THREAD = 4,  /* ranges of a wave */
};

/* Memory of one thread. */
struct latent_scratch {
    float *k_t;    /* [width][TILE_KEYS] */
    float *v;      /* [TILE_KEYS][latent_dim] */
    float *q;      /* [LATENT_ROWS][width] scaled */
    float *scores; /* [LATENT_ROWS][TILE_KEYS] */
    struct partial range, total;
};

/* Rows first .. first + n_rows - 1 of a sequence: row r is head r % n_heads of its new token r / n_heads. */
struct latent_block {
    const struct latent_sequence *sequence;
    uint64_t token_row; /* of q and output: the sequence's first new token */
    uint64_t first;
    uint32_t n_rows, n_keys; /* n_keys: those of its last row */
};

/* One call. */
struct latent_run {
    const struct latent *latent;
    const struct latent_step *step;
    const struct latent_io *io;
    uint32_t width;
    float unit; /* of what is cached */
    uint32_t n_blocks;
    /* Of the wave, if ranges are tasks: n_ranges of each block, from first_range on. */
    uint32_t first_range, n_ranges;
    uint32_t n_tasks;
    atomic_uint next; /* task */
};

/* ---- memory ---- */

static float *take(float *base, size_t *used, size_t n)
{
    float *part = base ? base + *used : NULL;
    *used += (n + ALIGNED_FLOATS - 1) / ALIGNED_FLOATS * ALIGNED_FLOATS;
    return part;
}

static struct partial take_partial(const struct latent_config *config, float *base, size_t *used)
{
    const uint32_t n = config->latent_dim;
    float *memory = take(base, used, attend_partial_floats(n, LATENT_ROWS));
    return memory ? attend_partial_at(memory, n, LATENT_ROWS) : (struct partial){0};
}

/* Lays out a scratch. Returns its floats. */
static size_t lay_scratch(const struct latent_config *config, float *base,
                          struct latent_scratch *scratch_out)
{
    const size_t width = latent_width(config);
    size_t used = 0;
    *scratch_out = (struct latent_scratch){
        .k_t = take(base, &used, width * TILE_KEYS),
        .v = take(base, &used, (size_t)config->latent_dim * TILE_KEYS),
        .q = take(base, &used, width * LATENT_ROWS),
        .scores = take(base, &used, (size_t)LATENT_ROWS * TILE_KEYS),
        .range = take_partial(config, base, &used),
        .total = take_partial(config, base, &used),
    };
    return used;
}

static size_t partial_floats(const struct latent_config *config)
{
    size_t used = 0;
    take_partial(config, NULL, &used);
    return used;
}

/* Scratches of the threads, then the partials of a wave, then one total for each block of a wave. */
static size_t workspace_bytes(const struct latent_config *config, uint32_t n_threads)
{
    struct latent_scratch scratch;
    const size_t n_partials = n_threads > 1 ? BLOCKS_A_THREAD + SLOTS_A_THREAD : 0;
    return n_threads * sizeof(float) *
           (lay_scratch(config, NULL, &scratch) + n_partials * partial_floats(config));
}

static struct latent_scratch scratch_at(const struct latent *latent, uint32_t thread)
{
    struct latent_scratch scratch;
    const size_t n = lay_scratch(&latent->config, NULL, &scratch);
    assert(latent->workspace && thread < latent->n_threads);
    lay_scratch(&latent->config, (float *)(void *)latent->workspace + thread * n, &scratch);
    return scratch;
}

/* Partial i behind the scratches. */
static struct partial partial_at(const struct latent *latent, size_t i)
{
    struct latent_scratch scratch;
    const size_t n_scratches = latent->n_threads * lay_scratch(&latent->config, NULL, &scratch);
    size_t used = n_scratches + i * partial_floats(&latent->config);
    assert(latent->workspace && i < (size_t)(BLOCKS_A_THREAD + SLOTS_A_THREAD) * latent->n_threads);
    return take_partial(&latent->config, (float *)(void *)latent->workspace, &used);
}

static struct partial slot_at(const struct latent_run *run, uint32_t block, uint32_t i)
{
    return partial_at(run->latent, block * run->n_ranges + i);
}

static struct partial total_at(const struct latent_run *run, uint32_t block)
{
    return partial_at(run->latent, (size_t)SLOTS_A_THREAD * run->latent->n_threads + block);
}

/* ---- rows ---- */

static uint64_t sequence_rows(const struct latent_run *run, const struct latent_sequence *sequence)
{
    return (uint64_t)sequence->query_len * run->latent->config.n_heads;
}

static uint32_t sequence_blocks(const struct latent_run *run,
                                const struct latent_sequence *sequence)
{
    return (uint32_t)((sequence_rows(run, sequence) + LATENT_ROWS - 1) / LATENT_ROWS);
}

/* The new token of row r of a block. */
static uint32_t row_token(const struct latent_run *run, const struct latent_block *block,
                          uint32_t r)
{
    return (uint32_t)((block->first + r) / run->latent->config.n_heads);
}

/* The keys that it sees. */
static uint32_t row_keys(const struct latent_run *run, const struct latent_block *block, uint32_t r)
{
    return block->sequence->kv_len - block->sequence->query_len + row_token(run, block, r) + 1;
}

static struct latent_block block_at(const struct latent_run *run, uint32_t index)
{
    const struct latent_sequence *sequence = run->step->sequences;
    uint64_t token_row = 0;
    for (; index >= sequence_blocks(run, sequence); sequence++) {
        index -= sequence_blocks(run, sequence);
        token_row += sequence->query_len;
    }
    struct latent_block block = {
        .sequence = sequence, .token_row = token_row, .first = (uint64_t)index * LATENT_ROWS};
    const uint64_t left = sequence_rows(run, sequence) - block.first;
    block.n_rows = left < LATENT_ROWS ? (uint32_t)left : LATENT_ROWS;
    block.n_keys = row_keys(run, &block, block.n_rows - 1);
    return block;
}

static uint32_t block_ranges(const struct latent_block *block)
{
    return (block->n_keys + RANGE_KEYS - 1) / RANGE_KEYS;
}

static uint32_t row_head(const struct latent_run *run, const struct latent_block *block, uint32_t r)
{
    return (uint32_t)((block->first + r) % run->latent->config.n_heads);
}

static void load_q(const struct latent_run *run, const struct latent_block *block, float *q_out)
{
    const float factor = run->latent->config.scale * run->unit;
    for (uint32_t r = 0; r < block->n_rows; r++, q_out += run->width) {
        const uint64_t row = block->token_row + row_token(run, block, r);
        const float *q = run->io->q + row * run->io->q_stride +
                         (size_t)row_head(run, block, r) * run->width;
        for (uint32_t i = 0; i < run->width; i++)
            q_out[i] = q[i] * factor;
    }
}

static void write_output(const struct latent_run *run, const struct latent_block *block,
                         const struct partial *total)
{
    const uint32_t n = run->latent->config.latent_dim;
    for (uint32_t r = 0; r < block->n_rows; r++) {
        const uint64_t row = block->token_row + row_token(run, block, r);
        float *output = run->io->output + row * run->io->output_stride +
                        (size_t)row_head(run, block, r) * n;
        const float factor = run->unit / vec_sum(vec_load(total->sums + (size_t)r * LANES));
        for (uint32_t i = 0; i < n; i++)
            output[i] = total->out[(size_t)r * n + i] * factor;
    }
}

/* ---- a tile ---- */

/* Finds the rows of keys start .. end - 1 in the cache. */
static uint32_t place_strips(const struct latent_run *run, const struct latent_block *block,
                             uint32_t start, uint32_t end, const char *strips_out[TILE_STRIPS])
{
    uint32_t n = 0;
    for (uint32_t key = start; key < end; key += STRIP_KEYS)
        strips_out[n++] = latent_address(&run->step->kv, run->io->layer_index,
                                         block->sequence->block_ids, key);
    return n;
}

static uint32_t tile_end(const struct latent_block *block, uint32_t start)
{
    return start + TILE_KEYS < block->n_keys ? start + TILE_KEYS : block->n_keys;
}

static void find_tile(const struct latent_run *run, const struct latent_block *block,
                      uint32_t start, struct tile *tile_out)
{
    const struct kv_view *kv = &run->step->kv;
    const uint32_t next = start + TILE_KEYS;
    tile_out->k.dtype = run->latent->config.cache;
    for (uint32_t strip = 0; strip < TILE_STRIPS; strip++)
        tile_out->k.strides[strip] = kv->token_stride;
    place_strips(run, block, start, tile_end(block, start), tile_out->k.strips);
    tile_out->v = tile_out->k;
    struct tile_ahead *ahead = &tile_out->ahead;
    ahead->n_strips = next < block->n_keys
                          ? place_strips(run, block, next, tile_end(block, next), ahead->strips)
                          : 0;
    ahead->strip = 0;
    ahead->bytes = STRIP_KEYS * kv->token_stride;
    ahead->byte = 0;
}

/* The rows from r on that belong to one token, and how many of them are computed together. */
static uint32_t rows_together(const struct latent_run *run, const struct latent_block *block,
                              uint32_t r)
{
    const uint32_t of_token = run->latent->config.n_heads - row_head(run, block, r);
    const uint32_t left = block->n_rows - r;
    return tile_group_rows(of_token < left ? of_token : left);
}

static void multiply_keys(const struct latent_run *run, const struct latent_block *block,
                          const struct latent_scratch *scratch, const struct seen *seen,
                          struct tile *tile)
{
    for (uint32_t r = 0, n; r < block->n_rows; r += n) {
        n = rows_together(run, block, r);
        if (seen[r].end > 0)
            tile_qk(n, seen[r].end, run->width, scratch->q + (size_t)r * run->width, scratch->k_t,
                    &tile->ahead, scratch->scores + (size_t)r * TILE_KEYS);
    }
}

static void multiply_values(const struct latent_run *run, const struct latent_block *block,
                            const struct latent_scratch *scratch, const struct seen *seen,
                            const float *keep, struct tile *tile, struct partial *partial)
{
    const uint32_t dim = run->latent->config.latent_dim;
    for (uint32_t r = 0, n; r < block->n_rows; r += n) {
        n = rows_together(run, block, r);
        if (seen[r].end == 0)
            continue;
        struct tile_weighted op = {.v = &tile->v,
                                   .ahead = &tile->ahead,
                                   .weights = scratch->scores + (size_t)r * TILE_KEYS,
                                   .keep = keep + r,
                                   .out = partial->out + (size_t)r * dim,
                                   .first = 0,
                                   .end = seen[r].end,
                                   .dim = dim};
        tile_pv(n, &op);
    }
}

static void attend_tile(const struct latent_run *run, const struct latent_block *block,
                        const struct latent_scratch *scratch, uint32_t start,
                        struct partial *partial)
{
    const uint32_t n_keys = tile_end(block, start) - start;
    struct seen seen[LATENT_ROWS];
    float keep[LATENT_ROWS];
    struct tile tile;
    for (uint32_t r = 0; r < block->n_rows; r++) {
        const uint32_t end = row_keys(run, block, r);
        seen[r] = (struct seen){0, end <= start ? 0 : end - start};
        seen[r].end = seen[r].end < TILE_KEYS ? seen[r].end : TILE_KEYS;
    }
    find_tile(run, block, start, &tile);
    tile_transpose(&tile.k, n_keys, run->width, &tile.ahead, scratch->k_t);
    multiply_keys(run, block, scratch, seen, &tile);
    const struct softmax_rows rows = {
        .n_rows = block->n_rows, .seen = seen, .scores = scratch->scores};
    softmax_tile(&rows, keep, partial);
    if (tile.v.dtype != DTYPE_F32 && block->n_rows > TILE_NARROW_ROWS)
        tile_widen(&tile.v, n_keys, run->latent->config.latent_dim, &tile.ahead, scratch->v,
                   &tile.v);
    multiply_values(run, block, scratch, seen, keep, &tile, partial);
}

static void attend_keys(const struct latent_run *run, const struct latent_block *block,
                        const struct latent_scratch *scratch, uint32_t range,
                        struct partial *partial)
{
    const uint32_t first = range * RANGE_KEYS;
    attend_clear(block->n_rows, run->latent->config.latent_dim, partial);
    for (uint32_t start = first; start < first + RANGE_KEYS && start < block->n_keys;
         start += TILE_KEYS)
        attend_tile(run, block, scratch, start, partial);
}

/* ---- tasks ---- */

/* All ranges of a block. */
static void whole_block(const struct latent_run *run, const struct latent_scratch *scratch,
                        uint32_t index)
{
    const struct latent_block block = block_at(run, index);
    const uint32_t n = run->latent->config.latent_dim;
    struct latent_scratch used = *scratch;
    load_q(run, &block, used.q);
    attend_clear(block.n_rows, n, &used.total);
    for (uint32_t range = 0; range < block_ranges(&block); range++) {
        attend_keys(run, &block, &used, range, &used.range);
        attend_merge(block.n_rows, n, &used.range, &used.total);
    }
    write_output(run, &block, &used.total);
}

/* One range of a block. */
static void one_range(const struct latent_run *run, const struct latent_scratch *scratch,
                      uint32_t index)
{
    const uint32_t block_index = index / run->n_ranges, i = index % run->n_ranges;
    const struct latent_block block = block_at(run, block_index);
    struct partial slot = slot_at(run, block_index, i);
    if (run->first_range + i >= block_ranges(&block))
        return;
    load_q(run, &block, scratch->q);
    attend_keys(run, &block, scratch, run->first_range + i, &slot);
}

static void run_tasks(void *arg, uint32_t thread)
{
    struct latent_run *run = arg;
    const struct latent_scratch scratch = scratch_at(run->latent, thread);
    uint32_t task;
    while ((task = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < run->n_tasks) {
        if (run->n_ranges > 0)
            one_range(run, &scratch, task);
        else
            whole_block(run, &scratch, task);
    }
}

static void run_all(struct latent_run *run, uint32_t n_tasks, uint32_t n_threads)
{
    run->n_tasks = n_tasks;
    atomic_store_explicit(&run->next, 0, memory_order_relaxed);
    if (n_threads > 1)
        thread_pool_run(run->latent->pool, n_threads, run_tasks, run);
    else
        run_tasks(run, 0);
}

/* Merges the ranges of the wave, in order. */
static void merge_wave(const struct latent_run *run)
{
    for (uint32_t b = 0; b < run->n_blocks; b++) {
        const struct latent_block block = block_at(run, b);
        struct partial total = total_at(run, b);
        if (run->first_range == 0)
            attend_clear(block.n_rows, run->latent->config.latent_dim, &total);
        for (uint32_t i = 0; i < run->n_ranges && run->first_range + i < block_ranges(&block);
             i++) {
            const struct partial slot = slot_at(run, b, i);
            attend_merge(block.n_rows, run->latent->config.latent_dim, &slot, &total);
        }
    }
}

static void run_waves(struct latent_run *run, uint32_t ranges_max, uint32_t n_threads)
{
    run->n_ranges = SLOTS_A_THREAD * run->latent->n_threads / run->n_blocks;
    for (; run->first_range < ranges_max; run->first_range += run->n_ranges) {
        run_all(run, run->n_blocks * run->n_ranges, n_threads);
        merge_wave(run);
    }
    for (uint32_t b = 0; b < run->n_blocks; b++) {
        const struct latent_block block = block_at(run, b);
        const struct partial total = total_at(run, b);
        write_output(run, &block, &total);
    }
}

static float cache_unit(const struct latent *latent, const struct latent_io *io)
{
    return dtype_is_8bit(latent->config.cache) ? io->cache_scale : 1;
}

static struct latent_run run_of(const struct latent *latent, const struct latent_step *step,
                                const struct latent_io *io)
{
    return (struct latent_run){.latent = latent,
                               .step = step,
                               .io = io,
                               .width = latent_width(&latent->config),
                               .unit = cache_unit(latent, io)};
}

static void attend(const struct latent *latent, const struct latent_step *step,
                   const struct latent_io *io)
{
    struct latent_run run = run_of(latent, step, io);
    uint64_t work = 0;
    uint32_t ranges_max = 0;
    for (uint32_t s = 0; s < step->n_sequences; s++) {
        const struct latent_sequence *sequence = &step->sequences[s];
        const uint32_t n_ranges = (sequence->kv_len + RANGE_KEYS - 1) / RANGE_KEYS;
        run.n_blocks += sequence_blocks(&run, sequence);
        ranges_max = sequence->query_len > 0 && n_ranges > ranges_max ? n_ranges : ranges_max;
        work += sequence_rows(&run, sequence) * sequence->kv_len * run.width * 2;
    }
    const uint32_t n_threads = parallel_threads(latent->pool, work);
    if (n_threads > 1 && ranges_max > 1 && run.n_blocks < BLOCKS_A_THREAD * n_threads)
        run_waves(&run, ranges_max, n_threads);
    else
        run_all(&run, run.n_blocks, n_threads);
}

/* ---- writing ---- */

/* Rows from index * WRITE_ROWS on, counted over all sequences. */
static void write_run(void *arg, uint32_t index)
{
    const struct latent_run *run = arg;
    const enum dtype cache = run->latent->config.cache;
    const uint64_t begin = (uint64_t)index * WRITE_ROWS, end = begin + WRITE_ROWS;
    uint64_t first = 0; /* the first row of the sequence */
    for (uint32_t s = 0; s < run->step->n_sequences && first < end; s++) {
        const struct latent_sequence *sequence = &run->step->sequences[s];
        const uint64_t stop = first + sequence->query_len;
        const uint32_t token = sequence->kv_len - sequence->query_len;
        for (uint64_t row = first > begin ? first : begin; row < stop && row < end; row++)
            row_narrow(run->io->rows + row * run->io->rows_stride, run->width, run->unit, cache,
                       latent_address(&run->step->kv, run->io->layer_index, sequence->block_ids,
                                      token + (uint32_t)(row - first)));
        first = stop;
    }
}

static void write_rows(const struct latent *latent, const struct latent_step *step,
                       const struct latent_io *io)
{
    struct latent_run run = run_of(latent, step, io);
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < step->n_sequences; s++)
        n_rows += step->sequences[s].query_len;
    parallel_run(latent->pool, n_rows * run.width * WORK_OF_WRITE,
                 (uint32_t)((n_rows + WRITE_ROWS - 1) / WRITE_ROWS), write_run, &run);
}

const struct latent_backend cpu_latent = {
    .workspace_bytes = workspace_bytes,
    .write = write_rows,
    .attend = attend,
};
