/*
 * attention_bench - attention against what this machine can do, measured in the same run.
 *
 *     attention_bench [threads] [--quick] [--json] [decode] [context]
 *
 * Decode: GB/s of K and V read, of the copy bandwidth. Context: GFLOP/s of the pairs that the causal
 * mask leaves, of the float multiply-add peak. Each figure is the best of several runs: the others
 * were disturbed.
 */
#include "tests/bench/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_TOKENS = 32, DECODE_KV_HEADS = 4, CONTEXT_HEADS = 8 };
enum { DECODE_GOAL_TOKENS = 4096, CONTEXT_GOAL_DIM = 64 };

struct shape {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_sequences, query_len, kv_len;
    enum dtype cache;
    enum attention_math math;
};

/* ---- a step, and layers enough that no cache holds the K and V of the next one ---- */

struct walk {
    const struct bench *bench;
    struct shape shape;
    struct rope *rope;
    struct attention **layers; /* [n_layers] one a call */
    uint32_t n_layers, layer;
    struct attention_metadata *metadata;
    struct kv_view kv;
    uint32_t *block_ids; /* shuffled */
    struct attention_sequence *sequences;
    struct attention_io io;
    float *qkv;
    size_t qkv_bytes, output_bytes;
};

static uint32_t blocks_of(const struct shape *shape)
{
    return (shape->kv_len + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

static double kv_bytes(const struct shape *shape)
{
    return 2.0 * shape->n_sequences * shape->kv_len * shape->n_kv_heads * shape->head_dim *
           (double)dtype_bytes(shape->cache);
}

/* Values of the cache reach this far from zero. */
static float cache_range(enum dtype cache)
{
    return cache == DTYPE_INT8 ? 127 : 1;
}

static void open_layers(struct walk *walk, struct attention_config *config)
{
    walk->layers = calloc(walk->n_layers, sizeof(struct attention *));
    for (uint32_t i = 0; i < walk->n_layers; i++) {
        config->layer_index = i;
        must(walk->bench->kernels->attention->create(config, walk->bench->pool, &walk->layers[i],
                                                     NULL));
    }
}

static void open_cache(struct walk *walk)
{
    const struct shape *shape = &walk->shape;
    uint32_t n_blocks = blocks_of(shape) * shape->n_sequences;
    walk->kv = kv_view_dense(NULL, n_blocks, walk->n_layers, shape->n_kv_heads, BLOCK_TOKENS,
                             shape->head_dim, shape->cache);
    walk->kv.base = filled(shape->cache,
                           n_blocks * walk->kv.block_stride / dtype_bytes(shape->cache),
                           cache_range(shape->cache));
    walk->block_ids = calloc(n_blocks, sizeof *walk->block_ids);
    for (uint32_t i = 0; i < n_blocks; i++)
        walk->block_ids[i] = i;
    for (uint32_t i = n_blocks - 1; i > 0; i--) {
        uint32_t other = random_next() % (i + 1);
        uint32_t id = walk->block_ids[i];
        walk->block_ids[i] = walk->block_ids[other];
        walk->block_ids[other] = id;
    }
}

static void open_io(struct walk *walk, const struct attention_config *config)
{
    const struct shape *shape = &walk->shape;
    size_t n_tokens = (size_t)shape->n_sequences * shape->query_len;
    uint64_t qkv_stride = (uint64_t)(shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    uint64_t output_stride = (uint64_t)shape->n_heads * shape->head_dim;
    walk->qkv_bytes = n_tokens * qkv_stride * sizeof(float);
    walk->output_bytes = n_tokens * output_stride * sizeof(float);
    walk->qkv = filled(DTYPE_F32, n_tokens * qkv_stride, 1);
    walk->io = attention_io_fused(config, walk->qkv, qkv_stride, allocate(walk->output_bytes),
                                  output_stride);
}

static void prepare(struct walk *walk)
{
    const struct shape *shape = &walk->shape;
    uint32_t n_blocks = blocks_of(shape);
    walk->sequences = calloc(shape->n_sequences, sizeof *walk->sequences);
    for (uint32_t s = 0; s < shape->n_sequences; s++)
        walk->sequences[s] = (struct attention_sequence){
            .phase = shape->query_len == 1 ? PHASE_GENERATION : PHASE_CONTEXT,
            .query_len = shape->query_len,
            .kv_len = shape->kv_len,
            .prompt_len = shape->kv_len,
            .block_ids = walk->block_ids + (size_t)s * n_blocks,
            .n_blocks = n_blocks};
    struct attention_step step = {.sequences = walk->sequences, .n_sequences = shape->n_sequences};
    must(walk->bench->kernels->attention->metadata_prepare(walk->metadata, &step, &walk->kv, NULL));
}

static void walk_open(const struct bench *bench, const struct shape *shape, struct walk *walk)
{
    *walk = (struct walk){.bench = bench, .shape = *shape, .n_layers = 1};
    if (shape->query_len == 1)
        walk->n_layers += (uint32_t)((double)STREAM_BYTES / kv_bytes(shape));
    struct rope_config rope = {
        .head_dim = shape->head_dim, .positions_max = 1u << 20, .theta = 10000};
    must(rope_create(&rope, &walk->rope, NULL));
    struct attention_config config = {.n_heads = shape->n_heads,
                                      .n_kv_heads = shape->n_kv_heads,
                                      .head_dim = shape->head_dim,
                                      .cache = shape->cache,
                                      .math = shape->math,
                                      .q_scale = 1,
                                      .k_scale = 1 / cache_range(shape->cache),
                                      .v_scale = 1 / cache_range(shape->cache),
                                      .rope = walk->rope};
    struct attention_limits limits = {.n_sequences_max = shape->n_sequences,
                                      .n_tokens_max = shape->n_sequences * shape->query_len,
                                      .kv_len_max = shape->kv_len,
                                      .n_heads = shape->n_heads,
                                      .n_kv_heads = shape->n_kv_heads,
                                      .head_dim = shape->head_dim,
                                      .cache = shape->cache,
                                      .ropes = {walk->rope}};
    open_layers(walk, &config);
    must(bench->kernels->attention->metadata_create(&limits, bench->pool, &walk->metadata, NULL));
    open_cache(walk);
    open_io(walk, &config);
    prepare(walk);
}

static void walk_close(struct walk *walk)
{
    const struct attention_backend *backend = walk->bench->kernels->attention;
    for (uint32_t i = 0; i < walk->n_layers; i++)
        backend->destroy(walk->layers[i]);
    backend->metadata_destroy(walk->metadata);
    rope_destroy(walk->rope);
    munmap(walk->kv.base, walk->kv.n_blocks * walk->kv.block_stride);
    munmap(walk->qkv, walk->qkv_bytes);
    munmap(walk->io.output, walk->output_bytes);
    free(walk->layers);
    free(walk->block_ids);
    free(walk->sequences);
}

static void run_next_layer(void *arg)
{
    struct walk *walk = arg;
    walk->layer = (walk->layer + 1) % walk->n_layers;
    must(walk->bench->kernels->attention->forward(walk->layers[walk->layer], walk->metadata,
                                                  &walk->io, NULL));
}

static void measure(const struct bench *bench, const struct shape *shape)
{
    struct walk walk;
    char what[96];
    static const char *const maths[] = {
        [MATH_COMPUTE] = "",        [MATH_FP8] = " MATH_FP8",
        [MATH_INT8] = " MATH_INT8", [MATH_INT8_PV_FP8] = " MATH_INT8_PV_FP8",
        [MATH_BF16] = " MATH_BF16", [MATH_FP16] = " MATH_FP16"};
    bool is_decode = shape->query_len == 1;
    double pairs = (double)shape->kv_len * (shape->kv_len + 1) / 2;
    double flops = 4 * pairs * shape->n_sequences * shape->n_heads * shape->head_dim;
    walk_open(bench, shape, &walk);
    double seconds = best_seconds(run_next_layer, &walk);
    walk_close(&walk);
    snprintf(what, sizeof what, "%s%s d %u heads %u/%u, %u x %u tokens", dtype_name(shape->cache),
             maths[shape->math], shape->head_dim, shape->n_heads, shape->n_kv_heads,
             shape->n_sequences, shape->kv_len);
    struct figure figure = {.section = "context",
                            .what = what,
                            .seconds = seconds,
                            .value = flops / seconds / 1e9,
                            .unit = "GFLOP/s",
                            .goal = shape->head_dim >= CONTEXT_GOAL_DIM ? 0.75 : 0};
    figure.of_peak = figure.value / bench->fma_peak;
    if (is_decode) {
        figure.section = "decode";
        figure.value = kv_bytes(shape) / seconds / 1e9;
        figure.unit = "GB/s";
        figure.of_peak = figure.value / bench->copy_peak;
        figure.goal = shape->cache == DTYPE_F32 || shape->kv_len < DECODE_GOAL_TOKENS ? 0
                      : dtype_bytes(shape->cache) == 2                                ? 0.9
                                                                                      : 0.8;
    }
    figure.ratio = figure.of_peak;
    print_figure(bench, &figure);
}

/* ---- what is measured: every combination; lists end with 0 ---- */

enum { LIST_MAX = 4, N_CACHES_MAX = 5 };

struct sizes {
    const char *section;
    uint32_t batches[LIST_MAX], tokens[LIST_MAX], groups[LIST_MAX];
};

static const struct sizes all_decode = {"decode", {1, 16}, {512, 1024, 4096, 16384}, {1, 4, 8}};
static const struct sizes all_context = {"context", {1}, {128, 512, 2048, 8192}, {1, 4, 8}};
static const struct sizes quick_decode = {"decode", {1, 16}, {4096}, {1, 4, 8}};
static const struct sizes one_decode = {"decode", {1}, {4096}, {4}};
static const struct sizes quick_context = {"context", {1}, {512, 2048}, {4}};
static const uint32_t dims[LIST_MAX] = {64, 128};

static const struct grid {
    bool is_quick;
    const struct sizes *sizes;
    enum attention_math math;
    uint32_t n_caches;
    enum dtype caches[N_CACHES_MAX];
} grids[] = {
    {false,
     &all_decode,
     MATH_COMPUTE,
     5,
     {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_INT8, DTYPE_E4M3}},
    {false,
     &all_context,
     MATH_COMPUTE,
     5,
     {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_INT8, DTYPE_E4M3}},
    {false, &all_context, MATH_BF16, 3, {DTYPE_F32, DTYPE_BF16, DTYPE_INT8}},
    {false, &all_context, MATH_FP16, 3, {DTYPE_F32, DTYPE_F16, DTYPE_INT8}},
    {true, &quick_decode, MATH_COMPUTE, 2, {DTYPE_BF16, DTYPE_INT8}},
    {true, &one_decode, MATH_COMPUTE, 2, {DTYPE_F16, DTYPE_E4M3}},
    {true, &quick_context, MATH_COMPUTE, 3, {DTYPE_F32, DTYPE_BF16, DTYPE_INT8}},
    {true, &quick_context, MATH_BF16, 1, {DTYPE_BF16}},
    {true, &quick_context, MATH_FP16, 1, {DTYPE_F16}},
    {true, &quick_context, MATH_FP8, 2, {DTYPE_BF16, DTYPE_E4M3}},
    {true, &quick_context, MATH_INT8, 1, {DTYPE_BF16}},
    {true, &quick_context, MATH_INT8_PV_FP8, 1, {DTYPE_BF16}},
};

static void measure_grid(const struct bench *bench, const struct grid *grid)
{
    bool is_decode = strcmp(grid->sizes->section, "decode") == 0;
    uint32_t n_cells = LIST_MAX * LIST_MAX * LIST_MAX * LIST_MAX * grid->n_caches;
    for (uint32_t cell = 0; cell < n_cells; cell++) {
        uint32_t rest = cell;
        uint32_t tokens = grid->sizes->tokens[rest % LIST_MAX];
        uint32_t group = grid->sizes->groups[(rest /= LIST_MAX) % LIST_MAX];
        uint32_t batch = grid->sizes->batches[(rest /= LIST_MAX) % LIST_MAX];
        uint32_t dim = dims[(rest /= LIST_MAX) % LIST_MAX];
        if (!tokens || !group || !batch || !dim)
            continue;
        struct shape shape = {.n_heads = is_decode ? DECODE_KV_HEADS * group : CONTEXT_HEADS,
                              .n_kv_heads = is_decode ? DECODE_KV_HEADS : CONTEXT_HEADS / group,
                              .head_dim = dim,
                              .n_sequences = batch,
                              .query_len = is_decode ? 1 : tokens,
                              .kv_len = tokens,
                              .cache = grid->caches[rest / LIST_MAX],
                              .math = grid->math};
        measure(bench, &shape);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct bench_arguments arguments = bench_arguments_parse(argc, argv);
    bench_open(arguments.n_threads, arguments.is_json, &bench);
    bench_print_machine(&bench);
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        if (grids[i].is_quick == arguments.is_quick &&
            bench_arguments_want(&arguments, grids[i].sizes->section))
            measure_grid(&bench, &grids[i]);
    bench_close(&bench);
    return 0;
}
