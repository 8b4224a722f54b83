#include "kernels/cpu/attention/workspace.h"

#include "kernels/backend/attention_layer.h"
#include "kernels/backend/attention_metadata.h"
#include "kernels/cpu/attention/attend.h"
#include "kernels/cpu/attention/attend_whole.h"

#include <assert.h>
#include <stdlib.h>

enum { ALIGNMENT = 64 };

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Takes n_bytes from memory that begins at base; base NULL: only counts. */
static void *take(char *base, size_t *used, size_t n_bytes)
{
    char *part = base ? base + *used : NULL;
    *used = round_up(*used + n_bytes, ALIGNMENT);
    return part;
}

static struct partial take_partial(char *base, size_t *used, uint32_t head_dim)
{
    float *memory = take(base, used, attend_partial_floats(head_dim, ROWS_MAX) * sizeof(float));
    return memory ? attend_partial_at(memory, head_dim, ROWS_MAX) : (struct partial){0};
}

/* Lays out a scratch at base. Returns its bytes. */
static size_t lay_scratch(const struct attention_limits *limits, char *base,
                          struct attend_scratch *scratch_out)
{
    const size_t n = limits->head_dim, padded = dim_padded(limits->head_dim);
    size_t used = 0;
    size_t n_stored = (size_t)UNFUSED_ROWS * whole_keys(limits->kv_len_max);
    struct attend_scratch scratch = {
        .k_t = take(base, &used, n * TILE_KEYS * sizeof(float)),
        .v = take(base, &used, padded * TILE_KEYS * sizeof(float)),
        .q = take(base, &used, ROWS_MAX * padded * sizeof(float)),
        .scores = take(base, &used, (size_t)ROWS_MAX * TILE_KEYS * sizeof(float)),
        .gathered = take(base, &used, source_gathered_bytes(limits->head_dim)),
        .quantized = {.rows = take(base, &used, ROWS_MAX * n),
                      .units = take(base, &used, ROWS_MAX * sizeof(float)),
                      .k = take(base, &used, n * TILE_KEYS),
                      .mean = take(base, &used, n * sizeof(float))},
        .half = {.q = take(base, &used, ROWS_MAX * half_dim(limits->head_dim) * sizeof(uint16_t)),
                 .k = take(base, &used, TILE_KEYS * half_dim(limits->head_dim) * sizeof(uint16_t)),
                 .v = take(base, &used, TILE_KEYS * padded * sizeof(uint16_t)),
                 .p = take(base, &used, (size_t)ROWS_MAX * TILE_KEYS * sizeof(uint16_t))},
        .range = take_partial(base, &used, limits->head_dim),
        .total = take_partial(base, &used, limits->head_dim),
        .stored = take(base, &used, n_stored * sizeof(float)),
    };
    if (scratch_out)
        *scratch_out = scratch;
    return used;
}

struct attend_scratch workspace_scratch(const struct attention_metadata *metadata, uint32_t index)
{
    const struct attention_workspace *workspace = metadata->workspace;
    assert(index < workspace->n_threads);
    struct attend_scratch scratch;
    lay_scratch(&metadata->limits, workspace->scratches + index * workspace->scratch_bytes,
                &scratch);
    return scratch;
}

/* The largest number of row blocks of a step: the last block of every beam and head may be incomplete. */
static size_t n_blocks_limit(const struct attention_limits *limits)
{
    uint64_t n_beams = limits->n_beams_max > 1 ? limits->n_beams_max : 1;
    uint64_t n_full = limits->n_tokens_max * (uint64_t)limits->n_heads / SHORT_ROWS;
    return (size_t)(n_full + limits->n_sequences_max * n_beams * limits->n_heads);
}

/* Counts the rows of partials: shared ones, and with has_multi_block those of every generation row. */
static enum status count_partials(const struct attention_limits *limits,
                                  struct attention_workspace *workspace, struct error *error)
{
    uint64_t n_beams = limits->n_beams_max > 1 ? limits->n_beams_max : 1;
    uint64_t n_queries = limits->n_draft_max > n_beams ? limits->n_draft_max : n_beams;
    uint64_t n_rows = limits->n_generations_max * n_queries;
    uint64_t n_ranges = ((uint64_t)limits->kv_len_max + RANGE_KEYS - 1) / RANGE_KEYS;
    n_rows = (n_rows < limits->n_tokens_max ? n_rows : limits->n_tokens_max) * limits->n_heads;
    uint64_t n_shared = SPLIT_ROWS_MAX * n_ranges;
    n_rows = limits->has_multi_block ? n_rows : 0;
    if (SPLIT_ROWS_MAX + n_rows > UINT32_MAX / n_ranges)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_len_max %u, has_multi_block %d: over 2^32 parts of %llu rows",
                         limits->kv_len_max, limits->has_multi_block,
                         (unsigned long long)(SPLIT_ROWS_MAX + n_rows));
    workspace->n_shared_partials = (uint32_t)n_shared;
    workspace->n_partials = (uint32_t)(n_shared + n_rows * n_ranges);
    return STATUS_OK;
}

static size_t staged_bytes(const struct attention_limits *limits)
{
    size_t row = (size_t)2 * limits->n_kv_heads * limits->head_dim * sizeof(float);
    return limits->is_cyclic ? limits->n_tokens_max * row : 0;
}

/* Lays out all parts in workspace->memory. Returns their bytes. */
static size_t lay_workspace(const struct attention_limits *limits,
                            struct attention_workspace *workspace)
{
    char *base = workspace->memory;
    size_t used = 0;
    workspace->scratch_bytes = lay_scratch(limits, NULL, NULL);
    workspace->scratches = take(base, &used, workspace->scratch_bytes * workspace->n_threads);
    workspace->partials = take(base, &used,
                               attend_partial_floats(limits->head_dim, workspace->n_partials) *
                                   sizeof(float));
    workspace->staged = take(base, &used, staged_bytes(limits));
    if (!limits->is_cyclic)
        workspace->staged = NULL;
    return used;
}

enum status workspace_create(const struct attention_limits *limits, uint32_t n_threads,
                             struct attention_workspace **workspace_out, struct error *error)
{
    struct attention_workspace counts = {0};
    assert(n_threads > 0);
    TRY(count_partials(limits, &counts, error));
    struct attention_workspace *workspace = calloc(1, sizeof *workspace);
    if (!workspace)
        return attention_metadata_no_memory(limits, error);
    size_t n_blocks = n_blocks_limit(limits);
    *workspace = counts;
    workspace->n_threads = n_threads;
    workspace->n_blocks_max = (uint32_t)n_blocks;
    const size_t n_bytes = lay_workspace(limits, workspace);
    workspace->memory = aligned_alloc(ALIGNMENT, n_bytes);
    workspace->blocks = calloc(n_blocks, sizeof *workspace->blocks);
    workspace->tasks_left = calloc(n_blocks, sizeof *workspace->tasks_left);
    if (!workspace->memory || !workspace->blocks || !workspace->tasks_left) {
        workspace_destroy(workspace);
        return attention_metadata_no_memory(limits, error);
    }
    const size_t n_laid = lay_workspace(limits, workspace);
    assert(n_laid == n_bytes);
    *workspace_out = workspace;
    return STATUS_OK;
}

void workspace_destroy(struct attention_workspace *workspace)
{
    if (!workspace)
        return;
    free(workspace->memory);
    free(workspace->blocks);
    free(workspace->tasks_left);
    free(workspace);
}
