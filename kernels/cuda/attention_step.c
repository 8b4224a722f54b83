#include "kernels/cuda/attention_step.h"

#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/attention_step_check.h"
#include "kernels/backend/kv_view_check.h"
#include "kernels/cuda/attention_layer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Divides an arena or a workspace into pieces. With base 0 it only counts the bytes. */
struct pieces {
    uintptr_t base;
    size_t used;
};

/* NULL for an empty piece: its address may be outside of the memory. */
static void *take(struct pieces *pieces, size_t n, size_t bytes)
{
    const size_t unit = ATTENTION_ARENA_ALIGNMENT;
    const uintptr_t at = pieces->base + pieces->used;
    pieces->used += (n * bytes + unit - 1) / unit * unit;
    return pieces->base && n > 0 ? (void *)at : NULL; /* NOLINT: an address of the device */
}

/* The most beams of all sequences of a step: each has at least one token. */
static size_t n_beams_max(const struct attention_limits *limits)
{
    const size_t beams = limits->n_beams_max > 1 ? limits->n_beams_max : 1;
    const size_t most = limits->n_sequences_max * beams;
    return most < limits->n_tokens_max || limits->keys != KEYS_SELF ? most : limits->n_tokens_max;
}

/* The most blocks of a beam; in a contiguous cache it has one. */
static size_t n_blocks_max(const struct attention_limits *limits)
{
    const uint32_t least = limits->block_tokens_min ? limits->block_tokens_min : BLOCK_TOKENS_MIN;
    const bool is_short = limits->is_cyclic && limits->window < limits->kv_len_max;
    const uint32_t n_slots = is_short ? limits->window : limits->kv_len_max;
    return n_slots / least + 1;
}

static size_t n_block_ids_max(const struct attention_limits *limits)
{
    return attention_n_tables(limits) * n_beams_max(limits) * n_blocks_max(limits);
}

/* The most flash tiles of a step: every sequence may have one that is not full. */
static size_t n_flash_tiles_max(const struct attention_limits *limits)
{
    return limits->n_tokens_max / ATTENTION_FLASH_ROWS + limits->n_sequences_max;
}

static struct cuda_step_arrays lay(const struct attention_limits *limits, struct pieces *pieces)
{
    const size_t n_sources = limits->n_beams_max > 1 ? n_beams_max(limits) * limits->kv_len_max : 0;
    const size_t n_drafts = limits->n_draft_max > 1 ? limits->n_tokens_max : 0;
    struct cuda_step_arrays step;
    step.counts = take(pieces, 1, sizeof *step.counts);
    step.sequences = take(pieces, limits->n_sequences_max, sizeof *step.sequences);
    step.tiles = take(pieces, limits->n_tokens_max, sizeof *step.tiles);
    step.flash_tiles = take(pieces, n_flash_tiles_max(limits), sizeof *step.flash_tiles);
    step.draft_masks = take(pieces, n_drafts, sizeof *step.draft_masks);
    step.sources = take(pieces, n_sources, sizeof *step.sources);
    step.block_ids = take(pieces, n_block_ids_max(limits), sizeof *step.block_ids);
    return step;
}

size_t cuda_step_arena_bytes(const struct attention_metadata *metadata)
{
    struct pieces pieces = {0};
    (void)lay(&metadata->limits, &pieces);
    return attention_metadata_arena_bytes(metadata) + pieces.used;
}

void cuda_step_use_arena(struct attention_metadata *metadata, void *base)
{
    attention_metadata_use_arena(metadata, base);
    struct pieces pieces = {(uintptr_t)base + attention_metadata_arena_bytes(metadata), 0};
    metadata->workspace->step = lay(&metadata->limits, &pieces);
    metadata->workspace->has_arena = true;
}

/* ---- workspace ---- */

static uint32_t n_ranges_of(uint32_t n_keys)
{
    return n_keys / ATTENTION_RANGE_KEYS + (n_keys % ATTENTION_RANGE_KEYS != 0);
}

/* The most tokens of generation sequences in a step. */
static size_t n_generated_max(const struct attention_limits *limits)
{
    const size_t drafts = limits->n_draft_max > 1 ? limits->n_draft_max : 1;
    const size_t beams = limits->n_beams_max > 1 ? limits->n_beams_max : 1;
    const size_t most = limits->n_generations_max * drafts * beams;
    return most < limits->n_tokens_max ? most : limits->n_tokens_max;
}

/* The queries of a tile: the rows of a tile divided by the heads of a group. */
static uint32_t tile_tokens(const struct attention_limits *limits)
{
    const uint32_t group = limits->n_heads / limits->n_kv_heads;
    return group < ATTENTION_TILE_ROWS ? ATTENTION_TILE_ROWS / group : 1;
}

/* The most tokens of a step that is split because it would leave processors idle. Each tile and kv head is one CTA. */
static size_t n_idle_max(const struct attention_limits *limits,
                         const struct attention_workspace *workspace)
{
    const size_t n_processors = device_get_traits(workspace->device).n_processors;
    return SPLIT_CTAS_MAX * n_processors / limits->n_kv_heads * tile_tokens(limits);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sets the number of rows with room for partial sums: all, or only those that AUTO may split and that fit
 * SPLIT_BYTES_MAX. */
static void size_partials(const struct attention_limits *limits,
                          struct attention_workspace *workspace)
{
    const size_t row = (size_t)limits->n_heads * (2 + limits->head_dim) * sizeof(float);
    size_t n_tokens = n_generated_max(limits);
    workspace->n_ranges = n_ranges_of(limits->kv_len_max);
    if (!limits->has_multi_block)
        n_tokens = smaller(smaller(n_tokens, n_idle_max(limits, workspace)),
                           SPLIT_BYTES_MAX / row / workspace->n_ranges);
    if (workspace->n_ranges < 2 && !limits->has_multi_block)
        n_tokens = 0;
    workspace->n_split_tokens = (uint32_t)n_tokens;
}

/* Sets the number of CTAs whose scores fit, and returns the bytes: those of partials, but at least enough for the rows of
 * a tile. */
static size_t size_scores(const struct attention_limits *limits, size_t of_partials,
                          struct attention_workspace *workspace)
{
    const size_t unit = ATTENTION_TILE_KEYS;
    const size_t n_keys = (limits->kv_len_max + unit - 1) / unit * unit;
    const size_t of_cta = ATTENTION_WHOLE_ROWS * n_keys * sizeof(float);
    const size_t least = ATTENTION_TILE_ROWS / ATTENTION_WHOLE_ROWS * of_cta;
    const size_t bytes = of_partials > least ? of_partials : least;
    workspace->score_stride = (uint32_t)n_keys;
    workspace->n_score_ctas = (uint32_t)(bytes / of_cta);
    return bytes;
}

static void lay_workspace(const struct attention_metadata *metadata, struct pieces *pieces,
                          struct attention_workspace *workspace)
{
    const struct attention_limits *limits = &metadata->limits;
    const size_t n_tokens = limits->n_tokens_max, head = limits->head_dim;
    const size_t n_new = limits->is_cyclic ? n_tokens * limits->n_kv_heads * 2 : 0;
    size_partials(limits, workspace);
    const size_t n_partials = (size_t)workspace->n_split_tokens * limits->n_heads *
                              workspace->n_ranges * (2 + head);
    const size_t n_bytes = size_scores(limits, n_partials * sizeof(float), workspace);
    workspace->queries = take(pieces, n_tokens * limits->n_heads * head, sizeof(float));
    workspace->new_keys = take(pieces, n_new * head, dtype_bytes(limits->cache));
    workspace->scores = take(pieces, n_bytes, 1);
    workspace->partials = n_partials != 0 ? workspace->scores : NULL;
}

/* Copies the angles for StreamingLLM, which every step of the metadata reads, to the device. */
static enum status send_positions(struct attention_metadata *metadata, struct pieces *pieces)
{
    const struct rope *rope = metadata->limits.ropes[0];
    struct attention_workspace *workspace = metadata->workspace;
    if (!metadata->position_cos)
        return STATUS_OK;
    const size_t n = (size_t)metadata->limits.kv_len_max * (rope_rotary_dim(rope) / 2);
    uint8_t *of_cos = take(pieces, n, sizeof(float)), *of_sin = take(pieces, n, sizeof(float));
    if (!pieces->base)
        return STATUS_OK;
    workspace->position_cos = (const float *)(const void *)of_cos;
    workspace->position_sin = (const float *)(const void *)of_sin;
    TRY(cuda_send(workspace->device, of_cos, metadata->position_cos, n * sizeof(float)));
    return cuda_send(workspace->device, of_sin, metadata->position_sin, n * sizeof(float));
}

/* Lays out the workspace in the memory of limits.beside, and uses its angles of positions. */
static enum status share_workspace(struct attention_metadata *metadata, struct error *error)
{
    struct attention_workspace *workspace = metadata->workspace;
    const struct attention_workspace *owner = metadata->limits.beside->workspace;
    struct pieces pieces = {(uintptr_t)owner->memory.base, 0};
    assert(owner->device == workspace->device && owner->memory.base);
    lay_workspace(metadata, &pieces, workspace);
    bool has_positions = !metadata->position_cos ||
                         (owner->position_cos && metadata->limits.kv_len_max <=
                                                     metadata->limits.beside->limits.kv_len_max);
    if (pieces.used > owner->shared_bytes || !has_positions)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "beside is a metadata with a workspace of %zu bytes, must be at least %zu",
                         owner->shared_bytes, pieces.used);
    workspace->position_cos = owner->position_cos;
    workspace->position_sin = owner->position_sin;
    return STATUS_OK;
}

static enum status own_workspace(struct attention_metadata *metadata, struct error *error)
{
    struct attention_workspace *workspace = metadata->workspace;
    struct pieces pieces = {0};
    lay_workspace(metadata, &pieces, workspace);
    workspace->shared_bytes = pieces.used;
    TRY(send_positions(metadata, &pieces));
    enum status status = device_allocate(workspace->device, DEVICE_WORKSPACE, pieces.used,
                                         &workspace->memory);
    if (status == STATUS_NO_MEMORY)
        return device_no_memory(workspace->device, "partial results of attention", pieces.used,
                                error);
    TRY(status);
    pieces = (struct pieces){(uintptr_t)workspace->memory.base, 0};
    lay_workspace(metadata, &pieces, workspace);
    return send_positions(metadata, &pieces);
}

static enum status create_workspace(struct attention_metadata *metadata, struct error *error)
{
    struct attention_workspace *workspace = calloc(1, sizeof *workspace);
    metadata->workspace = workspace;
    if (!workspace)
        return attention_metadata_no_memory(&metadata->limits, error);
    workspace->device = device_bound();
    assert(workspace->device && "a metadata is created on the device that is bound");
    return metadata->limits.beside ? share_workspace(metadata, error)
                                   : own_workspace(metadata, error);
}

enum status cuda_step_create(const struct attention_limits *limits, struct thread_pool *pool,
                             struct attention_metadata **metadata_out, struct error *error)
{
    struct attention_metadata *metadata;
    const uint32_t least = limits->block_tokens_min;
    if (least != 0 && (least < BLOCK_TOKENS_MIN || least > BLOCK_TOKENS_MAX))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_tokens_min is %u, must be 0 or from %u to %u", least,
                         BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    TRY(attention_metadata_create(limits, pool, &metadata, error));
    enum status status = create_workspace(metadata, error);
    if (status != STATUS_OK)
        cuda_step_destroy(metadata);
    if (status == STATUS_DEVICE_LOST)
        return error_set(error, status,
                         "the device was lost while the workspace of a step was made");
    TRY(status);
    *metadata_out = metadata;
    return STATUS_OK;
}

void cuda_step_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    if (metadata->workspace)
        device_free(metadata->workspace->device, &metadata->workspace->memory);
    free(metadata->workspace);
    attention_metadata_destroy(metadata);
}

/* ---- a step ---- */

/* The state of packing a step. */
struct packing {
    const struct attention_metadata *metadata;
    const struct kv_view *kv;
    struct cuda_step_arrays arrays;
    uint32_t n_tiles, n_context_tiles, n_flash_tiles, n_block_ids, n_sources, n_drafts,
        kv_len_longest;
};

/* The number of blocks of a beam that are in use. */
static uint32_t n_blocks_used(const struct packing *packing,
                              const struct attention_sequence *sequence)
{
    const struct attention_limits *limits = &packing->metadata->limits;
    uint32_t n_slots = sequence->kv_len;
    if (limits->is_cyclic && n_slots > limits->window)
        n_slots = limits->window;
    if (packing->kv->is_contiguous)
        return n_slots > 0;
    return n_slots / packing->kv->block_tokens + (n_slots % packing->kv->block_tokens != 0);
}

static void pack_cache(struct packing *packing, const struct attention_sequence *sequence,
                       struct cuda_sequence *packed)
{
    packed->first_block = packing->n_block_ids;
    packed->n_blocks = n_blocks_used(packing, sequence);
    const uint32_t n_rows = attention_n_tables(&packing->metadata->limits) * packed->n_beams;
    for (uint32_t row = 0; row < n_rows && packed->n_blocks > 0; row++) {
        memcpy(packing->arrays.block_ids + packing->n_block_ids,
               sequence->block_ids + (size_t)row * sequence->n_blocks,
               packed->n_blocks * sizeof(uint32_t));
        packing->n_block_ids += packed->n_blocks;
    }
    if (!sequence->cache_source || packed->n_beams == 1)
        return;
    packed->first_source = packing->n_sources;
    for (uint32_t beam = 0; beam < packed->n_beams; beam++) {
        memcpy(packing->arrays.sources + packing->n_sources,
               sequence->cache_source + (size_t)beam * sequence->cache_source_stride,
               sequence->kv_len * sizeof(uint32_t));
        packing->n_sources += sequence->kv_len;
    }
}

static void pack_drafts(struct packing *packing, const struct attention_sequence *sequence,
                        struct cuda_sequence *packed)
{
    if (!sequence->draft_mask || packing->metadata->limits.n_draft_max <= 1)
        return;
    packed->first_draft = packing->n_drafts;
    memcpy(packing->arrays.draft_masks + packing->n_drafts, sequence->draft_mask,
           sequence->query_len * sizeof(uint64_t));
    packing->n_drafts += sequence->query_len;
}

static void pack_tiles(struct packing *packing, uint32_t index, const struct cuda_sequence *packed)
{
    const uint32_t step = tile_tokens(&packing->metadata->limits), n = packed->query_len;
    for (uint32_t beam = 0; beam < packed->n_beams; beam++)
        for (uint32_t first = 0; first < n; first += step)
            packing->arrays.tiles[packing->n_tiles++] = (struct cuda_tile){
                .sequence = index,
                .first_token = packed->first_token + beam * n + first,
                .n_tokens = n - first < step ? n - first : step,
                .beam = beam,
            };
}

/* Only for contexts, which have no beams. */
static void pack_flash_tiles(struct packing *packing, uint32_t index,
                             const struct cuda_sequence *packed)
{
    const uint32_t step = ATTENTION_FLASH_ROWS, n = packed->query_len;
    for (uint32_t first = 0; first < n; first += step)
        packing->arrays.flash_tiles[packing->n_flash_tiles++] = (struct cuda_tile){
            .sequence = index,
            .first_token = packed->first_token + first,
            .n_tokens = n - first < step ? n - first : step,
        };
}

static uint32_t kind_of(const struct attention_sequence *sequence, bool is_dummy)
{
    if (is_dummy || sequence->is_dummy)
        return SEQUENCE_IS_DUMMY;
    return sequence->phase == PHASE_CONTEXT ? SEQUENCE_IS_CONTEXT : SEQUENCE_IS_GENERATION;
}

static void pack_sequence(struct packing *packing, const struct attention_step *step,
                          uint32_t index)
{
    const struct attention_metadata *metadata = packing->metadata;
    const struct attention_sequence *sequence = &step->sequences[index];
    struct cuda_sequence packed = {
        .kind = kind_of(sequence, step->is_dummy),
        .first_token = metadata->token_starts[index],
        .query_len = sequence->query_len,
        .n_beams = sequence_n_beams(sequence),
        .kv_len = sequence->kv_len,
        .first_query = sequence_first_query(&metadata->limits, sequence),
        .key_index = sequence->key_index,
        .first_source = ATTENTION_NONE,
        .first_draft = ATTENTION_NONE,
        .first_new = metadata->kv_starts[index],
    };
    if (packed.kind != SEQUENCE_IS_DUMMY) {
        pack_cache(packing, sequence, &packed);
        pack_drafts(packing, sequence, &packed);
    }
    pack_tiles(packing, index, &packed);
    packing->arrays.sequences[index] = packed;
    if (sequence->phase == PHASE_CONTEXT) {
        pack_flash_tiles(packing, index, &packed);
        packing->n_context_tiles = packing->n_tiles;
    } else if (packed.kv_len > packing->kv_len_longest) {
        packing->kv_len_longest = packed.kv_len;
    }
}

/* The used part of the arena: block tables are at its end, and most steps have fewer blocks than the limits allow. */
static size_t used_bytes(const struct attention_metadata *metadata, uint32_t n_block_ids)
{
    const size_t room = n_block_ids_max(&metadata->limits);
    struct pieces last = {0}, used = {0};
    (void)take(&last, room, sizeof(uint32_t));
    (void)take(&used, n_block_ids, sizeof(uint32_t));
    assert(n_block_ids <= room);
    return cuda_step_arena_bytes(metadata) - last.used + used.used;
}

enum status cuda_step_prepare(struct attention_metadata *metadata,
                              const struct attention_step *step, const struct kv_view *kv,
                              struct error *error)
{
    struct attention_workspace *workspace = metadata->workspace;
    const uint32_t least = metadata->limits.block_tokens_min;
    assert(workspace->has_arena && "use_arena shows where a step is laid out");
    if (!kv->is_contiguous && kv->block_tokens < least)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_tokens is %u, must be at least block_tokens_min %u",
                         kv->block_tokens, least);
    for (uint32_t i = 0; i < step->n_sequences; i++)
        if (step->sequences[i].window != 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "sequence %u has a window of its own, %u, which this device does not "
                             "compute",
                             i, step->sequences[i].window);
    if (!step->is_dummy)
        TRY(kv_view_check_alignment(kv, metadata->limits.n_kv_heads,
                                    dtype_bytes(metadata->limits.cache), error));
    TRY(attention_metadata_prepare(metadata, step, kv, error));
    struct packing packing = {.metadata = metadata, .kv = kv, .arrays = workspace->step};
    for (uint32_t i = 0; i < step->n_sequences; i++)
        pack_sequence(&packing, step, i);
    *workspace->step.counts = (struct cuda_step_counts){
        .n_sequences = metadata->n_sequences,
        .n_tokens = metadata->n_tokens,
        .n_kv_tokens = metadata->n_kv_tokens,
        .n_tiles = packing.n_tiles,
    };
    workspace->n_tiles = packing.n_tiles;
    workspace->n_context_tiles = packing.n_context_tiles;
    workspace->n_flash_tiles = packing.n_flash_tiles;
    workspace->kv_len_longest = packing.kv_len_longest;
    metadata->arena_used = used_bytes(metadata, packing.n_block_ids);
    assert(packing.n_tiles <= metadata->limits.n_tokens_max);
    assert(packing.n_flash_tiles <= n_flash_tiles_max(&metadata->limits));
    return STATUS_OK;
}
