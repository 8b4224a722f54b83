#include "kernels/cuda/attention.h"

#include "kernels/attention_features.h"
#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_metadata.h"
#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/attention_layer.h"
#include "kernels/cuda/attention_step.h"
#include "kernels/cuda/launch.h"

#include <assert.h>
#include <string.h>

/* The kernels have their own copies of these numbers. */
static_assert(MATH_COMPUTE == 0 && MATH_FP8 == 1 && MATH_INT8 == 2 && MATH_INT8_PV_FP8 == 3 &&
                  MATH_BF16 == 4 && MATH_FP16 == 5,
              "attention_head.cuh");
static_assert(MASK_CAUSAL == 0 && MASK_CAUSAL_UPPER_LEFT == 1 && MASK_BIDIRECTIONAL == 2,
              "attention_row.cuh");
static_assert(MASK_INPUT_NONE == 0 && MASK_INPUT_BOOL == 1 && MASK_INPUT_FLOAT == 2,
              "attention_row.cuh");

enum {
    UPDATE_WARPS = 4, /* attention_update.cuh */
    UPDATE_HEADS = 4,
    UPDATE_SHARED_BYTES = UPDATE_WARPS * CUDA_HEAD_DIM_MAX * sizeof(float),
    MASKED_WARPS = 4, /* attention_masked_tile.cuh */
    MASKED_ROWS = 4,
    MASKED_CHUNK_MAX = 128,
    MASKED_PADS = 16,
    MASKED_SUMS = 4,
    WHOLE_CHUNK = 128,                       /* attention_whole.cuh */
    FLASH_WARPS = ATTENTION_FLASH_ROWS / 16, /* attention_flash.cuh */
    FLASH_KEYS = 64,
    FLASH_STAGES = 4,
    FLASH_ELEMENT_BYTES = 2,
    FLASH_SM90_THREADS = 384, /* attention_flash_sm90.cuh */
    FLASH_SM90_SLOTS = 6,
    FLASH_SM90_BARRIER_BYTES = 16, /* of a slot */
    GROUPED_WARPS = 4,             /* attention_grouped_tile.cuh */
    GROUPED_ROWS = 8,
    GROUPED_STAGES = 4, /* of a warp: two of K and V */
    GROUPED_KEYS = 16,
    GROUPED_WEIGHTS = 2, /* of a row that a warp has summed: m, total */
    GROUPED_CTAS = 3,    /* that a processor of sm_90 holds, at least */
    GROUPED_WAVES = 2,   /* of CTAs, where ranges are split: one begins while others end */
    WARP_THREADS = 32,
};

static_assert(PATH_SHORT_KEYS == ATTENTION_SHORT_KEYS, "attention_parameters.h");

#define FEATURES ATTENTION_FEATURES_ALL
/* One warp a row: scores are never stored, and keys are not shared between CTAs or heads. */
#define REFERENCE_FEATURES                                                                         \
    (FEATURES & ~ATTENTION_FEATURE(3) & ~ATTENTION_FEATURE(6) & ~ATTENTION_FEATURE(7))

/* ---- launches ---- */

/* attention_update_quads reads rows eight bytes at a time. */
static bool takes_quads(const struct attention_parameters *p)
{
    const uint64_t addresses = (uintptr_t)p->q | (uintptr_t)p->k | (uintptr_t)p->v;
    const uint64_t strides = p->q_stride | p->k_stride | p->v_stride;
    const uint64_t cache = (uintptr_t)p->kv_base | p->block_bytes | p->kv_bytes | p->head_bytes |
                           p->token_bytes;
    return p->head_dim == 128 && p->compute == DTYPE_BF16 && p->sink_tokens == 0 &&
           (p->n_rotary == 0 || p->n_rotary == 128) && addresses % 8 == 0 && strides % 4 == 0 &&
           (p->cache != DTYPE_BF16 || cache % 8 == 0);
}

/* n_queries 0: only keys. A warp has one head; in attention_update_quads several heads of Q. */
static void launch_update(const struct attention_parameters *p)
{
    const bool is_quads = takes_quads(p);
    const uint32_t n_tokens = p->n_queries > p->n_keys ? p->n_queries : p->n_keys;
    const uint32_t of_warp = is_quads ? UPDATE_HEADS : 1;
    const uint32_t n_parts = (p->n_queries != 0 ? (p->n_heads + of_warp - 1) / of_warp : 0) +
                             (p->n_keys != 0 ? p->n_kv_heads : 0);
    const struct device_shape shape = {
        {n_tokens, (n_parts + UPDATE_WARPS - 1) / UPDATE_WARPS, 1},
        UPDATE_WARPS * WARP_THREADS,
        is_quads ? 0 : UPDATE_SHARED_BYTES,
    };
    if (n_tokens != 0)
        cuda_launch(is_quads ? CUDA_attention_update_quads : CUDA_attention_update, &shape, p);
}

static bool is_int8(const struct attention_parameters *p)
{
    return attention_math_is_int8((enum attention_math)p->math);
}

static void launch_reference(const struct call *call, struct attention_parameters *p)
{
    const uint32_t of_int8 = is_int8(p) ? 2 * p->head_dim : 0;
    const struct device_shape shape = {
        {p->n_queries, p->n_heads, 1},
        WARP_THREADS,
        (2 * ATTENTION_TILE_KEYS + of_int8) * (uint32_t)sizeof(float),
    };
    (void)call;
    if (p->n_queries != 0)
        cuda_launch(is_int8(p) ? CUDA_attention_reference_int8 : CUDA_attention_reference, &shape,
                    p);
}

/* The heads of a group in one CTA: as many as it has rows for, if they share loads. */
static uint32_t tile_heads_of(const struct attention_layer *layer)
{
    if (layer->config.grouped == CHOICE_OFF)
        return 1;
    return layer->group < ATTENTION_TILE_ROWS ? layer->group : ATTENTION_TILE_ROWS;
}

/* The shared memory of the larger kind of CTA: one stream of keys and all rows, or, if a head is one chunk, two streams and
 * half of the rows. */
static uint32_t masked_shared_bytes(uint32_t width)
{
    const uint32_t chunk = width < MASKED_CHUNK_MAX ? width : MASKED_CHUNK_MAX;
    const uint32_t pitch = chunk + MASKED_PADS, keys = ATTENTION_TILE_KEYS * pitch;
    const uint32_t row = width / chunk * pitch + width + MASKED_SUMS;
    const uint32_t one = keys + ATTENTION_TILE_ROWS * row;
    const uint32_t two = chunk < width ? 0 : 2 * keys + ATTENTION_TILE_ROWS / 2 * row;
    const uint32_t n_floats = (one > two ? one : two) +
                              MASKED_WARPS * ATTENTION_TILE_KEYS * MASKED_ROWS;
    return n_floats * (uint32_t)sizeof(float);
}

/* Launches the tiles from first_tile on; p->n_ranges is the z size of the grid. */
static void launch_tiles(const struct attention_parameters *p, uint32_t n_tiles)
{
    const uint32_t width = p->head_dim <= 64 ? 64 : p->head_dim <= 128 ? 128 : 256;
    const struct device_shape shape = {
        {n_tiles, p->n_parts * p->n_kv_heads, p->n_ranges != 0 ? p->n_ranges : 1},
        MASKED_WARPS * WARP_THREADS,
        masked_shared_bytes(width),
    };
    const uint32_t kernel = width == 64    ? CUDA_attention_masked_64
                            : width == 128 ? CUDA_attention_masked_128
                                           : CUDA_attention_masked_256;
    if (n_tiles != 0)
        cuda_launch(kernel, &shape, p);
}

/* Launches the contexts of MATH_INT8 and MATH_INT8_PV_FP8; their generation is that of MATH_COMPUTE. */
static void launch_int8(const struct attention_parameters *p, uint32_t n_tiles)
{
    const uint32_t width = 256, n_floats = p->head_dim + MASKED_WARPS + ATTENTION_TILE_ROWS;
    const struct device_shape shape = {
        {n_tiles, p->n_parts * p->n_kv_heads, 1},
        MASKED_WARPS * WARP_THREADS,
        masked_shared_bytes(width) + n_floats * (uint32_t)sizeof(float),
    };
    if (n_tiles != 0)
        cuda_launch(CUDA_attention_masked_int8_256, &shape, p);
}

/* Whether the scores of the layer's contexts are stored, in both back ends. */
static bool stores_scores(const struct call *call)
{
    const enum attention_path path = call->attention->layer.config.path;
    return path == PATH_SHORT || path == PATH_UNFUSED;
}

static uint32_t whole_shared_bytes(const struct attention_parameters *p, bool is_short)
{
    const uint32_t of_scores = is_short ? ATTENTION_WHOLE_ROWS * ATTENTION_SHORT_KEYS : 0;
    const uint32_t n_floats = ATTENTION_WHOLE_ROWS * p->head_dim +
                              ATTENTION_TILE_KEYS * (WHOLE_CHUNK + 1) + of_scores;
    return n_floats * (uint32_t)sizeof(float);
}

/* Launches contexts. If scores are in the workspace, the number of CTAs is limited by its room. */
static void launch_whole(const struct call *call, const struct attention_parameters *p)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    const bool is_short = call->attention->layer.config.path == PATH_SHORT;
    const uint64_t n_rows = (uint64_t)workspace->n_context_tiles * ATTENTION_TILE_ROWS *
                            p->n_parts * p->n_kv_heads;
    const uint64_t n_ctas = n_rows / ATTENTION_WHOLE_ROWS;
    const uint64_t most = is_short ? INT32_MAX : workspace->n_score_ctas;
    struct attention_parameters of_contexts = *p;
    const struct device_shape shape = {
        {(uint32_t)(n_ctas < most ? n_ctas : most), 1, 1},
        ATTENTION_WHOLE_ROWS * WARP_THREADS,
        whole_shared_bytes(p, is_short),
    };
    of_contexts.n_context_tiles = workspace->n_context_tiles;
    of_contexts.scores = workspace->scores;
    of_contexts.score_stride = workspace->score_stride;
    if (n_ctas != 0)
        cuda_launch(is_short ? CUDA_attention_whole_short : CUDA_attention_whole_unfused, &shape,
                    &of_contexts);
}

/* Launches contexts on CUDA cores. */
static void launch_contexts(const struct call *call, const struct attention_parameters *p)
{
    if (stores_scores(call))
        launch_whole(call, p);
    else if (is_int8(p))
        launch_int8(p, call->metadata->workspace->n_context_tiles);
    else
        launch_tiles(p, call->metadata->workspace->n_context_tiles);
}

/* Whether several CTAs share the keys of a row: if without it processors would be idle. The bits are the same. */
static bool splits(const struct call *call, const struct attention_parameters *p)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    const enum attention_choice choice = call->attention->layer.config.multi_block;
    const uint32_t n_tokens = p->n_queries - call->metadata->n_context_tokens;
    const uint32_t n_processors = device_get_traits(call->attention->device).n_processors;
    const uint32_t n_ctas = (workspace->n_tiles - workspace->n_context_tiles) * p->n_parts *
                            p->n_kv_heads;
    const bool is_short = !call->metadata->is_static &&
                          workspace->kv_len_longest <= ATTENTION_RANGE_KEYS;
    if (choice == CHOICE_OFF || n_tokens > workspace->n_split_tokens)
        return false;
    return choice == CHOICE_ON || (!is_short && n_ctas < SPLIT_CTAS_MAX * n_processors);
}

static void launch_merge(const struct attention_parameters *p, uint32_t n_tokens)
{
    const uint32_t n_parts = (p->head_dim + WARP_THREADS - 1) / WARP_THREADS;
    const struct device_shape shape = {{n_tokens, p->n_heads, n_parts}, WARP_THREADS, 0};
    if (n_tokens != 0)
        cuda_launch(CUDA_attention_merge, &shape, p);
}

/* The most rows that a generation sequence of the step can have in a tile, in units of eight. */
static uint32_t n_eights_of(const struct call *call, const struct attention_parameters *p)
{
    const struct attention_limits *limits = &call->metadata->limits;
    const uint32_t group = call->attention->layer.group;
    const uint32_t of_tile = group < ATTENTION_TILE_ROWS ? ATTENTION_TILE_ROWS / group : 1;
    const uint32_t most = limits->n_draft_max > 1 ? limits->n_draft_max : 1;
    return ((most < of_tile ? most : of_tile) * p->tile_heads + GROUPED_ROWS - 1) / GROUPED_ROWS;
}

/* The number of CTAs that share the ranges of a row. n_ctas: CTAs without sharing. In all there are a few waves of CTAs,
 * whatever the lengths of a step. */
static uint32_t n_shares_of(const struct call *call, const struct attention_parameters *p,
                            uint32_t n_ctas)
{
    const uint32_t n_processors = device_get_traits(call->attention->device).n_processors;
    const uint32_t n_shares = n_processors * GROUPED_CTAS * GROUPED_WAVES / (n_ctas ? n_ctas : 1);
    if (p->n_ranges == 0 || n_shares == 0)
        return 1;
    return n_shares < p->n_ranges ? n_shares : p->n_ranges;
}

/* Launches the tiles from first_tile on, on tensor cores. */
static void launch_grouped(const struct call *call, const struct attention_parameters *p,
                           uint32_t n_tiles)
{
    static const uint32_t kernels[2][2][2] = {
        {{CUDA_attention_grouped_f16_16_64, CUDA_attention_grouped_f16_16_128},
         {CUDA_attention_grouped_f16_8_64, CUDA_attention_grouped_f16_8_128}},
        {{CUDA_attention_grouped_bf16_16_64, CUDA_attention_grouped_bf16_16_128},
         {CUDA_attention_grouped_bf16_8_64, CUDA_attention_grouped_bf16_8_128}},
    };
    const uint32_t bytes = (uint32_t)dtype_bytes((enum dtype)p->cache);
    const uint32_t of_stages = GROUPED_STAGES * GROUPED_KEYS * p->head_dim * bytes;
    const uint32_t of_weights = GROUPED_ROWS * GROUPED_WEIGHTS * (uint32_t)sizeof(float);
    const uint32_t n_rows = n_eights_of(call, p) * p->n_parts * p->n_kv_heads;
    const struct device_shape shape = {
        {n_tiles, n_rows, n_shares_of(call, p, n_tiles * n_rows)},
        GROUPED_WARPS * WARP_THREADS,
        GROUPED_WARPS * (of_stages + of_weights),
    };
    assert(p->head_dim == 64 || p->head_dim == 128);
    if (n_tiles != 0)
        cuda_launch(kernels[p->math == MATH_BF16][bytes == 1][p->head_dim == 128], &shape, p);
}

/* Launches generation sequences; their ranges of keys may be split over several CTAs. */
static void launch_generation(const struct call *call, struct attention_parameters *p,
                              bool is_grouped)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    const uint32_t n_contexts = workspace->n_context_tiles;
    const bool is_split = splits(call, p);
    p->first_tile = n_contexts;
    if (is_split) {
        p->first_token = call->metadata->n_context_tokens;
        p->partials = workspace->partials;
        p->n_ranges = workspace->n_ranges;
    }
    if (is_grouped)
        launch_grouped(call, p, workspace->n_tiles - n_contexts);
    else
        launch_tiles(p, workspace->n_tiles - n_contexts);
    if (is_split)
        launch_merge(p, p->n_queries - p->first_token);
}

static void group_heads(const struct call *call, struct attention_parameters *p)
{
    p->tile_heads = tile_heads_of(&call->attention->layer);
    p->n_parts = (call->attention->layer.group + p->tile_heads - 1) / p->tile_heads;
}

static void launch_masked(const struct call *call, struct attention_parameters *p)
{
    group_heads(call, p);
    if (!splits(call, p) && !stores_scores(call) && !is_int8(p)) {
        launch_tiles(p, call->metadata->workspace->n_tiles);
        return;
    }
    launch_contexts(call, p);
    launch_generation(call, p, false);
}

/* Whether rows of the cache can be read 16 bytes at a time. */
static bool has_aligned_rows(const struct call *call)
{
    const struct kv_view *kv = &call->metadata->kv;
    const uint64_t layer = call->attention->layer.config.layer_index * kv->layer_stride;
    const uint64_t all = (uintptr_t)kv->base | layer | kv->block_stride | kv->kv_stride |
                         kv->head_stride | kv->token_stride;
    return all % 16 == 0;
}

/* Whether tensor cores can compute the layer: its math uses the cache's values as they are or widened, and the size of heads
 * fits. It depends only on the layer and the cache, not on the sequences of a step. */
static bool takes_tensors(const struct call *call)
{
    const struct attention_config *config = &call->attention->layer.config;
    const bool is_half = config->math == MATH_BF16 || config->math == MATH_FP16;
    const enum dtype own = config->math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    return is_half && (config->cache == own || dtype_is_8bit(config->cache)) &&
           (config->head_dim == 64 || config->head_dim == 128) && config->sink_tokens == 0 &&
           has_aligned_rows(call);
}

/* Whether attention_flash computes the layer's contexts. */
static bool takes_flash(const struct call *call)
{
    const struct attention *attention = call->attention;
    const struct attention_config *config = &attention->layer.config;
    const bool has_bias = attention->slopes || attention->table || attention->buckets;
    return takes_tensors(call) && !stores_scores(call) && !dtype_is_8bit(config->cache) &&
           !has_bias && config->keys == KEYS_SELF && config->mask == MASK_CAUSAL &&
           config->mask_input == MASK_INPUT_NONE && config->soft_cap == 0;
}

/* Whether attention_flash_sm90 can be used: a CTA takes two heads that share keys. The bits are those of attention_flash. */
static bool takes_flash_sm90(const struct call *call, const struct attention_parameters *p)
{
    const uint64_t bytes = dtype_bytes((enum dtype)p->compute);
    const bool has_wide_rows = (p->compute == DTYPE_BF16 || p->compute == DTYPE_F32) &&
                               p->output_scale == 0 &&
                               ((uintptr_t)p->output | p->output_stride * bytes) % 8 == 0;
    return p->math == MATH_BF16 && p->head_dim == 128 && call->attention->layer.group > 1 &&
           has_wide_rows && device_get_traits(call->attention->device).architecture == 90;
}

/* With one sequence the CTAs take tiles in turn, one CTA for each processor. The tiles of several sequences are not sorted
 * by length, so each is a CTA of its own. */
static void launch_flash_sm90(const struct call *call, const struct attention_parameters *p)
{
    const uint32_t of_group = (call->attention->layer.group + 1) / 2;
    const uint32_t of_slot = FLASH_KEYS * p->head_dim * FLASH_ELEMENT_BYTES +
                             FLASH_SM90_BARRIER_BYTES;
    const uint32_t n_pairs = p->n_flash_tiles * p->n_kv_heads * of_group;
    const uint32_t n_processors = device_get_traits(call->attention->device).n_processors;
    const struct device_shape shape = {
        {n_pairs < n_processors || call->metadata->n_contexts > 1 ? n_pairs : n_processors, 1, 1},
        FLASH_SM90_THREADS,
        FLASH_SM90_SLOTS * of_slot,
    };
    cuda_launch(CUDA_attention_flash_sm90_bf16_128, &shape, p);
}

static void launch_flash(const struct call *call, const struct attention_parameters *p)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    const bool is_bf16 = p->math == MATH_BF16, is_wide = p->head_dim == 128;
    const uint32_t kernel = is_bf16 ? (is_wide ? CUDA_attention_flash_bf16_128
                                               : CUDA_attention_flash_bf16_64)
                                    : (is_wide ? CUDA_attention_flash_f16_128
                                               : CUDA_attention_flash_f16_64);
    struct attention_parameters of_contexts = *p;
    const struct device_shape shape = {
        {workspace->n_flash_tiles, p->n_heads, 1},
        FLASH_WARPS * WARP_THREADS,
        FLASH_STAGES * FLASH_KEYS * p->head_dim * FLASH_ELEMENT_BYTES,
    };
    of_contexts.tiles = workspace->step.flash_tiles;
    of_contexts.n_flash_tiles = workspace->n_flash_tiles;
    if (workspace->n_flash_tiles == 0)
        return;
    if (takes_flash_sm90(call, p))
        launch_flash_sm90(call, &of_contexts);
    else
        cuda_launch(kernel, &shape, &of_contexts);
}

/* Whether attention_grouped computes the layer's generation: if inputs and outputs have 16 bits, rounding inside to 16 bits
 * loses no more. */
static bool takes_grouped(const struct call *call)
{
    const struct attention_config *config = &call->attention->layer.config;
    const bool is_coarse = config->compute == DTYPE_BF16 ||
                           (config->compute == DTYPE_F16 && config->math == MATH_FP16);
    return takes_tensors(call) && is_coarse;
}

/* Launches contexts and generation, each with its best kernel. */
static void launch_best(const struct call *call, struct attention_parameters *p)
{
    const bool is_flash = takes_flash(call), is_grouped = takes_grouped(call);
    if (!is_flash && !is_grouped) {
        launch_masked(call, p);
        return;
    }
    group_heads(call, p);
    if (is_flash)
        launch_flash(call, p);
    else
        launch_contexts(call, p);
    launch_generation(call, p, is_grouped);
}

/* Checks the alignment of tensors: rows are read and written by elements. */
static enum status check_alignment(const struct attention *attention, const struct attention_io *io,
                                   struct error *error)
{
    if (io->is_written)
        return error_set(error, STATUS_UNSUPPORTED, "is_written is not computed by this back end");
    const struct attention_config *config = &attention->layer.config;
    const size_t element = dtype_bytes(config->compute);
    const size_t of_output = config->output_scale != 0 ? 1 : element;
    const size_t of_mask = config->mask_input == MASK_INPUT_FLOAT ? sizeof(float) : 1;
    const struct {
        const char *name;
        const void *address;
        size_t unit;
    } tensors[] = {
        {"q", io->q, element},       {"k", io->k, element},
        {"v", io->v, element},       {"output", io->output, of_output},
        {"mask", io->mask, of_mask},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if ((uintptr_t)tensors[i].address % tensors[i].unit != 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s is at %p, must be at a multiple of its elements' %zu bytes",
                             tensors[i].name, tensors[i].address, tensors[i].unit);
    return STATUS_OK;
}

static void assert_bound(const struct call *call)
{
    assert(device_bound() == call->attention->device && "the layer's device is bound");
    assert(device_bound() == call->metadata->workspace->device && "and the step's");
    assert(call->metadata->workspace->has_arena && "use_arena shows where the step is");
    (void)call;
}

static enum status kv_update(const struct attention *attention,
                             const struct attention_metadata *metadata,
                             const struct attention_io *io, struct error *error)
{
    const struct call call = {attention, metadata, io};
    TRY(attention_io_check_kv(&attention->layer, metadata, io, error));
    TRY(check_alignment(attention, io, error));
    assert_bound(&call);
    if (metadata->is_dummy)
        return STATUS_OK;
    struct attention_parameters p = cuda_attention_parameters(&call);
    p.n_queries = 0;
    launch_update(&p);
    return STATUS_OK;
}

/* A cyclic cache is written after attention: earlier queries still see the keys that new keys overwrite. Until then new
 * keys are read from the workspace. */
static enum status forward(const struct call *call,
                           void (*launch)(const struct call *, struct attention_parameters *),
                           struct error *error)
{
    const bool is_cyclic = call->attention->layer.config.is_cyclic;
    TRY(attention_io_check(&call->attention->layer, call->metadata, call->io, error));
    TRY(check_alignment(call->attention, call->io, error));
    assert_bound(call);
    struct attention_parameters p = cuda_attention_parameters(call);
    p.writes_workspace = is_cyclic;
    p.packs_queries = launch == launch_best && takes_flash(call);
    if (!call->metadata->is_dummy)
        launch_update(&p);
    launch(call, &p);
    if (is_cyclic && !call->metadata->is_dummy) {
        p.writes_workspace = false;
        p.n_queries = 0;
        launch_update(&p);
    }
    return STATUS_OK;
}

static enum status forward_reference(const struct attention *attention,
                                     const struct attention_metadata *metadata,
                                     const struct attention_io *io, struct error *error)
{
    return forward(&(struct call){attention, metadata, io}, launch_reference, error);
}

static enum status forward_masked(const struct attention *attention,
                                  const struct attention_metadata *metadata,
                                  const struct attention_io *io, struct error *error)
{
    return forward(&(struct call){attention, metadata, io}, launch_masked, error);
}

static enum status forward_best(const struct attention *attention,
                                const struct attention_metadata *metadata,
                                const struct attention_io *io, struct error *error)
{
    return forward(&(struct call){attention, metadata, io}, launch_best, error);
}

static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    (void)pool;
    return cuda_layer_create(config, FEATURES, attention_out, error);
}

static enum status create_reference(const struct attention_config *config, struct thread_pool *pool,
                                    struct attention **attention_out, struct error *error)
{
    (void)pool;
    return cuda_layer_create(config, REFERENCE_FEATURES, attention_out, error);
}

/* The functions that all tables share. */
#define SHARED_FUNCTIONS                                                                           \
    .destroy = cuda_layer_destroy, .metadata_create = cuda_step_create,                            \
    .metadata_destroy = cuda_step_destroy, .metadata_prepare = cuda_step_prepare,                  \
    .metadata_make_static = attention_metadata_make_static,                                        \
    .metadata_arena_bytes = cuda_step_arena_bytes, .metadata_use_arena = cuda_step_use_arena,      \
    .kv_update = kv_update

const struct attention_backend cuda_attention = {SHARED_FUNCTIONS, .name = "cuda",
                                                 .features = FEATURES, .create = create,
                                                 .forward = forward_best};
const struct attention_backend cuda_attention_masked = {SHARED_FUNCTIONS, .name = "cuda_masked",
                                                        .features = FEATURES, .create = create,
                                                        .forward = forward_masked};
const struct attention_backend cuda_attention_reference = {
    SHARED_FUNCTIONS, .name = "cuda_masked", .features = REFERENCE_FEATURES,
    .create = create_reference, .forward = forward_reference};

const struct attention_backend *cuda_attention_named(const char *name)
{
    static const struct {
        const char *name;
        const struct attention_backend *backend;
    } named[] = {
        {"cuda", &cuda_attention},
        {"cuda_masked", &cuda_attention_masked},
        {"cuda_reference", &cuda_attention_reference},
    };
    if (!name || name[0] == '\0')
        return &cuda_attention;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strcmp(named[i].name, name) == 0)
            return named[i].backend;
    return NULL;
}
