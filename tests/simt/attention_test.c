/* attention on a device: a captured static step serves every step of its bucket, dummies change no bit and no cache; what
 * the host would read of a device, or the device of the host, is refused or never touched. */
#include "device/device_ops.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_step.h"
#include "kernels/cuda/launch.h"
#include "tests/kernels/support/static_step.h"
#include "tests/simt/layer_device.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_STEPS = 4,
    WIDTH = LAYER_HEADS * LAYER_DIM,
    KV_WIDTH = LAYER_KV_HEADS * LAYER_DIM,
    LAUNCHES_MAX = 8,
};

/* ---- a device that writes down what is launched ---- */

struct launch {
    uint32_t kernel;
    struct device_shape shape;
    struct attention_parameters parameters;
};

static struct device *device;
static struct device_ops recording;
static const struct device_ops *real;
static struct launch launches[LAUNCHES_MAX];
static uint32_t n_launches;

static enum status record_launch(struct device *of, uint32_t kernel,
                                 const struct device_shape *shape, const void *parameters,
                                 size_t bytes)
{
    cr_assert_eq(bytes, sizeof(struct attention_parameters));
    cr_assert_lt(n_launches, LAUNCHES_MAX);
    struct launch *launch = &launches[n_launches++];
    launch->kernel = kernel;
    launch->shape = *shape;
    memcpy(&launch->parameters, parameters, bytes);
    return real->launch(of, kernel, shape, parameters, bytes);
}

static void open_device(void)
{
    device = layer_device_open(64, 5);
    real = device->ops;
    recording = *real;
    recording.launch = record_launch;
    device->ops = &recording;
    static_step_begin();
    layer_device_adopt(static_qkv_bias, sizeof static_qkv_bias);
    layer_device_adopt(static_norm, sizeof static_norm);
}

static void close_device(void)
{
    layer_device_close();
    static_step_end();
}

TestSuite(cuda_attention, .init = open_device, .fini = close_device);

/* ---- static steps ---- */

static struct layer open_kind(const struct attention_backend *backend,
                              const struct static_kind *kind)
{
    const struct attention_config config = static_config(kind);
    return layer_device_layer(backend, &config, kind->is_contiguous);
}

static void run_step(struct layer *layer, const struct static_kind *kind,
                     enum attention_phase phase, uint32_t n, uint32_t kv_len, uint32_t n_static,
                     struct layer_rows *rows_out)
{
    n_launches = 0;
    static_step_run(layer, kind, phase, n, kv_len, n_static, rows_out);
}

/* What was launched in the first static step is what every later one launches. */
static void assert_captured(const struct launch *captured, uint32_t n, const char *what)
{
    cr_assert_eq(n_launches, n, "%s: %u launches, %u at capture", what, n_launches, n);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(launches[i].kernel, captured[i].kernel, "%s", what);
        cr_assert_arr_eq(&launches[i].shape, &captured[i].shape, sizeof captured[i].shape, "%s",
                         what);
        cr_assert_arr_eq(&launches[i].parameters, &captured[i].parameters,
                         sizeof captured[i].parameters, "%s: launch %u has a step in it", what, i);
    }
}

/* On the device that is open, which ends with it: what a layer had is not the device's any more. */
static void check_kind(const struct attention_backend *backend, const struct static_kind *kind,
                       uint32_t n)
{
    static struct layer_rows rows, expected;
    struct launch captured[LAUNCHES_MAX];
    uint32_t n_captured = 0;
    struct layer filled = open_kind(backend, kind), plain = open_kind(backend, kind);
    run_step(&filled, kind, PHASE_CONTEXT, n, 0, 0, &rows);
    run_step(&plain, kind, PHASE_CONTEXT, n, 0, 0, &expected);
    static_step_assert_rows(&rows, &expected, n * STATIC_PROMPT, n * STATIC_PROMPT, kind->name);
    cr_assert_eq(
        backend->metadata_make_static(filled.metadata, STATIC_SEQUENCES, kind->n_query, NULL),
        STATUS_OK);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        const uint32_t kv_len = STATIC_PROMPT + i * kind->n_query;
        run_step(&filled, kind, PHASE_GENERATION, n, kv_len, STATIC_SEQUENCES, &rows);
        if (i == 0) {
            n_captured = n_launches;
            memcpy(captured, launches, sizeof launches);
        }
        assert_captured(captured, n_captured, kind->name);
        run_step(&plain, kind, PHASE_GENERATION, n, kv_len, 0, &expected);
        static_step_assert_rows(&rows, &expected, n * kind->n_query,
                                STATIC_SEQUENCES * kind->n_query, kind->name);
        static_step_assert_caches(&filled, &plain, kind->name, n);
    }
    layer_device_finish(&filled);
    layer_device_finish(&plain);
    close_device();
    open_device();
}

#ifdef KVFERRY_SANITIZED_THREAD /* dummies have no thread that sequences have not */
enum { N_LEAST = STATIC_SEQUENCES - 1, N_MOST = STATIC_SEQUENCES - 1 };
#else
enum { N_LEAST = 0, N_MOST = STATIC_SEQUENCES };
#endif

Test(cuda_attention, a_captured_step_serves_every_step_of_its_bucket)
{
    for (size_t i = 0; i < STATIC_KINDS; i++)
        for (uint32_t n = N_LEAST; n <= N_MOST; n++)
            check_kind(&cuda_attention_masked, &static_kinds[i], n);
}

Test(cuda_attention, a_captured_step_of_the_reference_kernel_too)
{
    for (size_t i = 0; i < STATIC_KINDS; i++)
        if (static_kinds[i].config.multi_block == CHOICE_AUTO &&
            static_kinds[i].config.grouped == CHOICE_AUTO &&
            static_kinds[i].config.path == PATH_AUTO)
            check_kind(&cuda_attention_reference, &static_kinds[i], 2);
}

/* ---- what is refused, and by which name ---- */

static void assert_refused(enum status status, const struct error *error, const char *sentence)
{
    cr_assert_eq(status, STATUS_INVALID_ARGUMENT, "%s", error->text);
    cr_assert(strstr(error->text, sentence), "'%s' lacks '%s'", error->text, sentence);
}

Test(cuda_attention, a_tensor_between_elements_is_refused)
{
    static struct layer_rows rows;
    static _Alignas(64) char memory[LAYER_ROWS_MAX * WIDTH * sizeof(float) + 64];
    struct layer layer = open_kind(&cuda_attention, &static_kinds[0]);
    struct error error = {""};
    run_step(&layer, &static_kinds[0], PHASE_CONTEXT, 1, 0, 0, &rows);
    struct attention_io io = {memory, memory, memory, WIDTH, KV_WIDTH, KV_WIDTH, memory,
                              WIDTH,  NULL,   false,  NULL,  0,        0};
    n_launches = 0;
    io.k = memory + 2;
    assert_refused(layer.backend->forward(layer.attention, layer.metadata, &io, &error), &error,
                   "k is at ");
    assert_refused(layer.backend->kv_update(layer.attention, layer.metadata, &io, &error), &error,
                   "must be at a multiple of its elements' 4 bytes");
    io.k = memory;
    io.output = memory + 1;
    assert_refused(layer.backend->forward(layer.attention, layer.metadata, &io, &error), &error,
                   "output is at ");
    cr_assert_eq(n_launches, 0);
    layer_device_finish(&layer);
}

/* A row of the cache between elements would lose the device. */
Test(cuda_attention, a_cache_between_elements_is_refused)
{
    struct layer layer = open_kind(&cuda_attention, &static_kinds[0]);
    const uint32_t block = 0;
    const struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                                .query_len = 8,
                                                .kv_len = 8,
                                                .prompt_len = 8,
                                                .block_ids = &block,
                                                .n_blocks = 1};
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    const size_t bytes = layer.backend->metadata_arena_bytes(layer.metadata);
    char *arena = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, bytes);
    const struct kv_view good = layer.kv;
    struct {
        const char *sentence;
        struct kv_view kv;
    } bad[] = {{"kv.base is ", good},
               {"kv.block_stride is ", good},
               {"kv.kv_stride is ", good},
               {"kv.head_stride is ", good},
               {"kv.token_stride is ", good}};
    bad[0].kv.base = (char *)good.base + 2;
    bad[1].kv.block_stride += 2;
    bad[2].kv.kv_stride += 2;
    bad[3].kv.head_stride += 2;
    bad[4].kv.token_stride += 2;
    layer.backend->metadata_use_arena(layer.metadata, arena);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error = {""};
        assert_refused(layer.backend->metadata_prepare(layer.metadata, &step, &bad[i].kv, &error),
                       &error, bad[i].sentence);
        cr_assert(strstr(error.text, "multiple of a cache element's 4 bytes"), "%s", error.text);
    }
    layer_device_finish(&layer);
    free(arena);
}

static struct attention_metadata *new_metadata(uint32_t n_sequences, uint32_t block_tokens_min,
                                               uint32_t n_beams_max)
{
    struct attention_metadata *metadata;
    struct error error = {""};
    const struct attention_limits limits = {.n_sequences_max = n_sequences,
                                            .n_tokens_max = 4 * n_sequences,
                                            .kv_len_max = 4096,
                                            .n_heads = 2,
                                            .n_kv_heads = 1,
                                            .head_dim = LAYER_DIM,
                                            .n_beams_max = n_beams_max,
                                            .block_tokens_min = block_tokens_min};
    cr_assert_eq(cuda_attention.metadata_create(&limits, NULL, &metadata, &error), STATUS_OK, "%s",
                 error.text);
    return metadata;
}

Test(cuda_attention, a_step_is_as_large_as_its_longest_blocks_allow)
{
    struct attention_metadata *few = new_metadata(2, 64, 1), *many = new_metadata(2, 0, 1);
    struct attention_metadata *beams = new_metadata(2, 64, 4);
    const size_t bytes = cuda_attention.metadata_arena_bytes(few);
    const size_t more = cuda_attention.metadata_arena_bytes(many) - bytes;
    const size_t n_less = 2 * (4096 / BLOCK_TOKENS_MIN - 4096 / 64);
    cr_assert_geq(more, n_less * sizeof(uint32_t) - ATTENTION_ARENA_ALIGNMENT);
    cr_assert_leq(more, n_less * sizeof(uint32_t) + ATTENTION_ARENA_ALIGNMENT);
    cr_assert_gt(cuda_attention.metadata_arena_bytes(beams), bytes + 8 * 4096 * sizeof(uint32_t));

    const uint32_t block = 0;
    const struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                                .query_len = 8,
                                                .kv_len = 8,
                                                .prompt_len = 8,
                                                .block_ids = &block,
                                                .n_blocks = 1};
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    float pool[2 * 8 * LAYER_DIM];
    struct kv_view kv = kv_view_dense(pool, 1, 1, 1, 8, LAYER_DIM, DTYPE_F32);
    struct error error = {""};
    void *arena = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, bytes);
    cuda_attention.metadata_use_arena(few, arena);
    assert_refused(cuda_attention.metadata_prepare(few, &step, &kv, &error), &error,
                   "block_tokens is 8, must be at least block_tokens_min 64");
    cuda_attention.metadata_destroy(few);
    cuda_attention.metadata_destroy(many);
    cuda_attention.metadata_destroy(beams);
    free(arena);
}

Test(cuda_attention, a_kernel_is_asked_for_by_name)
{
    cr_assert_eq(cuda_attention_named(NULL), &cuda_attention);
    cr_assert_eq(cuda_attention_named(""), &cuda_attention);
    cr_assert_eq(cuda_attention_named("cuda"), &cuda_attention);
    cr_assert_eq(cuda_attention_named("cuda_masked"), &cuda_attention_masked);
    cr_assert_eq(cuda_attention_named("cuda_reference"), &cuda_attention_reference);
    cr_assert_eq(cuda_attention_named("avx2"), NULL);
}

/* The layer's metadata for n sequences of up to len tokens. */
static void lengthen(struct layer *layer, uint32_t n, uint32_t len)
{
    struct attention_limits limits = layer->metadata->limits;
    struct error error = {""};
    limits.n_sequences_max = limits.n_generations_max = n;
    limits.kv_len_max = len;
    layer->backend->metadata_destroy(layer->metadata);
    cr_assert_eq(layer->backend->metadata_create(&limits, NULL, &layer->metadata, &error),
                 STATUS_OK, "%s", error.text);
    const size_t bytes = layer->backend->metadata_arena_bytes(layer->metadata);
    free(layer->arenas);
    layer->arenas = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, 2 * bytes);
    cr_assert(layer->arenas);
    layer_device_adopt(layer->arenas + bytes, bytes);
}

/* Of any number of rows as many at a time as the partial sums of generation have room for, at least a tile's; the others
 * wait for their turn. */
Test(cuda_attention, stored_scores_have_room_that_does_not_grow_with_a_step)
{
    static struct layer_rows rows, expected;
    const struct static_kind kind = {"unfused", {.path = PATH_UNFUSED}, 1, true, false};
    const uint32_t n_items = STATIC_SEQUENCES * 3 * LAYER_KV_HEADS * 4; /* 3 tiles of 8 tokens */
    struct layer layer = open_kind(&cuda_attention, &kind);
    run_step(&layer, &kind, PHASE_CONTEXT, STATIC_SEQUENCES, 0, 0, &expected);
    cr_assert_eq(launches[1].kernel, CUDA_attention_whole_unfused);
    cr_assert_eq(launches[1].shape.grid[0], 4);
    static const struct {
        uint32_t n_sequences, len, n_ctas;
    } cases[] = {{8, 1u << 17, 4}, {128, 1u << 15, 9}, {256, 1u << 17, 18}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layer longer = open_kind(&cuda_attention, &kind);
        lengthen(&longer, cases[i].n_sequences, cases[i].len);
        run_step(&longer, &kind, PHASE_CONTEXT, STATIC_SEQUENCES, 0, 0, &rows);
        cr_assert_eq(launches[1].shape.grid[0], cases[i].n_ctas);
        cr_assert_gt(n_items, launches[1].shape.grid[0]);
        static_step_assert_rows(&rows, &expected, STATIC_SEQUENCES * STATIC_PROMPT,
                                STATIC_SEQUENCES * STATIC_PROMPT, "fewer CTAs");
        layer_device_finish(&longer);
    }
    layer_device_finish(&layer);
}

/* ---- ranges by themselves ---- */

enum { MERGE_HEADS = 2, MERGE_DIM = 40, MERGE_RANGES = 70 };

/* Of one token, who sees the keys up to kv_len. */
struct merge_case {
    uint32_t kv_len, window;
    struct cuda_step_counts counts;
    struct cuda_sequence sequence;
    uint32_t token_sequence, token_row, index;
    float sinks[MERGE_HEADS];
    float partials[MERGE_HEADS][MERGE_RANGES][2 + MERGE_DIM];
    float output[MERGE_HEADS][MERGE_DIM], lse[MERGE_HEADS];
};

static void fill_partials(struct merge_case *c)
{
    uint32_t state = c->kv_len;
    for (uint32_t i = 0; i < MERGE_HEADS * MERGE_RANGES; i++) {
        float *partial = c->partials[i / MERGE_RANGES][i % MERGE_RANGES];
        for (uint32_t j = 0; j < 2 + MERGE_DIM; j++) {
            state = state * 1664525 + 1013904223;
            partial[j] = (float)(state >> 8) / (1 << 20) - (j == 1 ? 0 : 8);
        }
        if (state >> 24 < 40) { /* a range without a key in sight */
            memset(partial, 0, (2 + MERGE_DIM) * sizeof(float));
            partial[0] = -INFINITY;
        }
    }
}

/* attention_row.cuh: merge_range, one range behind the other. */
static void merge_in_order(const struct merge_case *c, uint32_t head, uint32_t first, uint32_t end)
{
    float m = c->sinks[head], total = 1, sums[MERGE_DIM] = {0};
    for (uint32_t i = first; i < end; i++) {
        const float *partial = c->partials[head][i], before = m;
        if (partial[1] == 0)
            continue;
        m = fmaxf(m, partial[0]);
        const float of_sums = expf(before - m), of_range = expf(partial[0] - m);
        total = partial[1] * of_range + total * of_sums;
        for (uint32_t j = 0; j < MERGE_DIM; j++)
            sums[j] = partial[2 + j] * of_range + sums[j] * of_sums;
    }
    cr_assert_eq(c->lse[head], m + logf(total), "%u keys, head %u", c->kv_len, head);
    for (uint32_t j = 0; j < MERGE_DIM; j++)
        cr_assert_eq(c->output[head][j], sums[j] / total, "%u keys, head %u", c->kv_len, head);
}

Test(cuda_attention, ranges_are_merged_in_their_order)
{
    static struct merge_case c;
    static const uint32_t cases[][2] = {{1, 0},    {300, 0},      {31 * 256, 0},   {32 * 256, 0},
                                        {8193, 0}, {70 * 256, 0}, {70 * 256, 700}, {9000, 8500}};
    layer_device_adopt(&c, sizeof c);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t kv_len = cases[i][0], window = cases[i][1];
        const uint32_t oldest = window ? kv_len - window : 0;
        c = (struct merge_case){
            .kv_len = kv_len,
            .counts = {1, 1, 1, 1},
            .sequence = {.kind = SEQUENCE_IS_GENERATION,
                         .query_len = 1,
                         .n_beams = 1,
                         .kv_len = kv_len,
                         .first_source = ATTENTION_NONE,
                         .first_draft = ATTENTION_NONE},
            .index = kv_len - 1,
            .sinks = {0.5f, 7},
        };
        fill_partials(&c);
        const struct attention_parameters p = {.counts = &c.counts,
                                               .sequences = &c.sequence,
                                               .token_sequences = &c.token_sequence,
                                               .token_rows = &c.token_row,
                                               .indices = &c.index,
                                               .sinks = c.sinks,
                                               .partials = c.partials[0][0],
                                               .output = c.output,
                                               .lse = c.lse,
                                               .output_stride = MERGE_HEADS * MERGE_DIM,
                                               .n_ranges = MERGE_RANGES,
                                               .n_heads = MERGE_HEADS,
                                               .n_kv_heads = 1,
                                               .head_dim = MERGE_DIM,
                                               .window = window,
                                               .math = MATH_COMPUTE,
                                               .compute = DTYPE_F32};
        const struct device_shape shape = {{1, MERGE_HEADS, 2}, 32, 0};
        n_launches = 0;
        cuda_launch(CUDA_attention_merge, &shape, &p);
        for (uint32_t head = 0; head < MERGE_HEADS; head++)
            merge_in_order(&c, head, oldest / 256, (kv_len + 255) / 256);
    }
}

/* Of 64 processors: two CTAs of each, a kv head and a tile of two tokens are one; of long contexts what 256 MiB hold. */
Test(cuda_attention, partial_sums_have_room_for_what_is_ever_split)
{
    static const struct {
        uint32_t n_sequences, kv_len, n_drafts;
        bool has_multi_block;
        uint32_t n_split_tokens;
    } cases[] = {
        {8, 4096, 1, false, 8},       {100, 4096, 1, false, 32}, {20, 4096, 4, false, 32},
        {100, 4096, 1, true, 100},    {100, 256, 1, false, 0},   {100, 256, 1, true, 100},
        {64, 1u << 17, 1, false, 15},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_metadata *metadata;
        struct error error = {""};
        const struct attention_limits limits = {.n_sequences_max = cases[i].n_sequences,
                                                .n_generations_max = cases[i].n_sequences,
                                                .n_tokens_max = 128,
                                                .kv_len_max = cases[i].kv_len,
                                                .n_heads = 64,
                                                .n_kv_heads = 8,
                                                .head_dim = 128,
                                                .n_draft_max = cases[i].n_drafts,
                                                .block_tokens_min = 64,
                                                .has_multi_block = cases[i].has_multi_block};
        cr_assert_eq(cuda_attention.metadata_create(&limits, NULL, &metadata, &error), STATUS_OK,
                     "%s", error.text);
        cr_assert_eq(metadata->workspace->n_split_tokens, cases[i].n_split_tokens, "case %zu: %u",
                     i, metadata->workspace->n_split_tokens);
        cuda_attention.metadata_destroy(metadata);
    }
}

/* A dummy step, which measures memory: zeros, and no address of a cache or a tensor but the outputs. */
static void check_dummy_step(const struct static_kind *kind)
{
    struct layer layer = open_kind(&cuda_attention, kind);
    const struct attention_sequence sequences[] = {
        {.phase = PHASE_CONTEXT,
         .query_len = STATIC_PROMPT,
         .kv_len = STATIC_PROMPT,
         .prompt_len = STATIC_PROMPT},
        {.phase = PHASE_GENERATION, .query_len = 1, .kv_len = 50},
    };
    const struct attention_step step = {.sequences = sequences, .n_sequences = 2, .is_dummy = true};
    static float output[(STATIC_PROMPT + 1) * WIDTH];
    static const float ZEROS[(STATIC_PROMPT + 1) * WIDTH];
    const struct attention_io io = {.output = output, .output_stride = WIDTH};
    struct error error = {""};
    const size_t bytes = layer.backend->metadata_arena_bytes(layer.metadata);
    layer_device_adopt(output, sizeof output);
    memset(output, 0xff, sizeof output);
    layer.kv.base = (free(layer.kv.base), NULL);
    layer.backend->metadata_use_arena(layer.metadata, layer.arenas + bytes);
    cr_assert_eq(layer.backend->metadata_prepare(layer.metadata, &step, &layer.kv, &error),
                 STATUS_OK, "%s", error.text);
    n_launches = 0;
    cr_assert_eq(layer.backend->forward(layer.attention, layer.metadata, &io, &error), STATUS_OK,
                 "%s", error.text);
    cr_assert_arr_eq(output, ZEROS, sizeof ZEROS);
    cr_assert_geq(n_launches, 1);
    layer_device_finish(&layer);
}

Test(cuda_attention, a_dummy_step_writes_zeros_and_touches_no_cache)
{
    check_dummy_step(&static_kinds[0]);
}

Test(cuda_attention, a_dummy_step_of_stored_scores_too)
{
    check_dummy_step(&(struct static_kind){"unfused", {.path = PATH_UNFUSED}, 1, true, false});
    cr_assert_eq(launches[0].kernel, CUDA_attention_whole_unfused);
}
