/* cpu attention: every instruction set gives the same bits whatever a layer asks for, and nothing that
 * is chosen for speed changes them: staging, key ranges, query groups, threads. */
#include "base/thread_pool.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/layer.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 90, PROMPT = 80, N_THREADS = 3 };

static struct layer_rows rows, expected;
static const struct layer_run WHOLE = {.len = LEN, .prompt_len = PROMPT};
static const struct layer_run CHUNKED = {.len = LEN, .prompt_len = PROMPT, .chunk = 16};

/* All but the reference. */
static uint32_t cpu_kernels(const struct kernels *list_out[KERNELS_MAX])
{
    uint32_t n = attention_list(list_out);
    cr_assert_gt(n, 1);
    memmove(list_out, list_out + 1, (n - 1) * sizeof *list_out);
    return n - 1;
}

static void run(const struct kernels *kernels, struct attention_config config,
                const struct layer_run *how, struct layer_rows *rows_out)
{
    struct layer layer = layer_open(kernels->attention, config, false);
    memset(rows_out, 0, sizeof *rows_out);
    layer_run(&layer, how, rows_out);
    layer_close(&layer);
}

static const float sinks[LAYER_HEADS] = {0.5f, -1, 0, 2};

static const struct attention_config asked_for[] = {
    {.soft_cap = 1.5f, .bias.alibi_scale = 1},
    {.cache = DTYPE_INT8, .k_scale = 0.01f, .v_scale = 0.01f, .sinks = sinks},
    {.cache = DTYPE_E4M3, .k_scale = 0.01f, .v_scale = 0.01f, .window = 20},
    {.cache = DTYPE_BF16, .math = MATH_FP8, .k_scale = 0.01f, .v_scale = 0.01f, .q_scale = 0.01f},
    {.cache = DTYPE_F16, .math = MATH_INT8},
    {.cache = DTYPE_BF16, .math = MATH_INT8_PV_FP8},
    {.cache = DTYPE_F16, .math = MATH_BF16, .window = 20, .sinks = sinks},
    {.path = PATH_SHORT, .math = MATH_BF16, .soft_cap = 3},
    {.cache = DTYPE_BF16, .math = MATH_FP16, .window = 20, .sinks = sinks},
    {.path = PATH_SHORT, .math = MATH_FP16, .soft_cap = 3},
    {.path = PATH_UNFUSED, .soft_cap = 3, .output_scale = 0.01f},
    {.path = PATH_SHORT, .compute = DTYPE_BF16, .cache = DTYPE_BF16},
    {.window = 24, .sink_tokens = 3, .is_cyclic = true, .compute = DTYPE_F16},
};

static bool adds_alike(const struct kernels *kernels, const struct attention_config *config)
{
    if (rounds_products(kernels->name))
        return false;
    return config->math == MATH_COMPUTE || config->math != attention_own_math(kernels->name);
}

/* FP16 sums in FP16, others in another order. */
static double near_of(enum attention_math math)
{
    return math == MATH_FP16 ? 3e-3 : 1e-4;
}

/* The same for any two sets. What is rounded to 8 or 16 bits on the way, or at the end, may fall to the other side. */
static double near_of_sets(const struct kernels *kernels, enum attention_math math)
{
    return rounds_products(kernels->name) ? 3e-3 : near_of(math);
}

Test(cpu_attention, every_instruction_set_gives_the_same_bits_with_every_feature)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = cpu_kernels(list);
    for (size_t i = 0; i < sizeof asked_for / sizeof asked_for[0]; i++) {
        run(list[0], asked_for[i], &WHOLE, &expected);
        for (uint32_t k = 1; k < n; k++) {
            run(list[k], asked_for[i], &WHOLE, &rows);
            if (!adds_alike(list[k], &asked_for[i])) {
                layer_assert_near(&rows, 0, &expected, 0, LEN,
                                  near_of_sets(list[k], asked_for[i].math), list[k]->name);
                continue;
            }
            cr_assert_eq(memcmp(&rows, &expected, sizeof rows), 0, "%s and %s differ in row %zu",
                         list[k]->name, list[0]->name, i);
        }
    }
}

/* A chunk of 80 tokens runs over the slots that its own queries still see. */
Test(cpu_attention, staged_keys_of_a_cyclic_cache_are_those_of_a_sliding_window,
     .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = cpu_kernels(list);
    for (uint32_t window = 1; window <= LEN; window += window < 10 ? 4 : 23)
        for (uint32_t k = 0; k < n; k++) {
            struct attention_config sliding = {.window = window, .cache = DTYPE_BF16};
            struct attention_config cyclic = sliding;
            cyclic.is_cyclic = true;
            run(list[k], sliding, &CHUNKED, &expected);
            run(list[k], cyclic, &CHUNKED, &rows);
            cr_assert_eq(memcmp(&rows, &expected, sizeof rows), 0, "%s, chunks, window %u",
                         list[k]->name, window);
            run(list[k], cyclic, &WHOLE, &rows);
            cr_assert_eq(memcmp(&rows, &expected, sizeof rows), 0, "%s, whole, window %u",
                         list[k]->name, window);
        }
}

static void check_cyclic(const struct kernels *kernels, struct attention_config sliding,
                         const struct layer_run *how)
{
    struct attention_config cyclic = sliding;
    cyclic.is_cyclic = true;
    run(kernels, sliding, how, &expected);
    run(kernels, cyclic, how, &rows);
    cr_assert_eq(memcmp(&rows, &expected, sizeof rows), 0, "%s, math %d, window %u, chunks of %u",
                 kernels->name, (int)sliding.math, sliding.window, how->chunk);
}

/* Slots that hold a newer key by now are no part of a tile. */
Test(cpu_attention, tiles_of_int8_math_are_those_of_keys_in_sight, .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = cpu_kernels(list);
    for (uint32_t window = 10; window <= LEN; window += 13)
        for (uint32_t k = 0; k < n; k++)
            for (enum attention_math math = MATH_INT8; math <= MATH_INT8_PV_FP8; math++) {
                struct attention_config sliding = {.window = window, .math = math};
                check_cyclic(list[k], sliding, &CHUNKED);
                check_cyclic(list[k], sliding, &WHOLE);
            }
}

/* A weight that falls on the other side of its rounding to BF16 moves a row by a few parts in 10^5. */
static void check_paths(const struct kernels *kernels, enum attention_math math, double near)
{
    for (enum attention_path path = PATH_UNFUSED; path <= PATH_SHORT; path++) {
        struct attention_config config = {
            .path = PATH_FLASH, .math = math, .sinks = sinks, .window = 70};
        run(kernels, config, &WHOLE, &expected);
        config.path = path;
        run(kernels, config, &WHOLE, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, near, kernels->name);
        run(kernels, config, &CHUNKED, &expected);
        cr_assert_eq(memcmp(&rows, &expected, sizeof rows), 0, "%s, path %d", kernels->name,
                     (int)path);
    }
}

Test(cpu_attention, stored_scores_agree_with_running_ones_and_do_not_depend_on_chunks,
     .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = cpu_kernels(list);
    for (uint32_t k = 0; k < n; k++) {
        check_paths(list[k], MATH_COMPUTE, 1e-6);
        check_paths(list[k], MATH_BF16, near_of(MATH_BF16));
        check_paths(list[k], MATH_FP16, near_of(MATH_FP16));
    }
}

enum {
    LONG = 700,
    HEADS = 6,
    KV_HEADS = 2,
    DIM = 40,
    WIDTH = HEADS * DIM,
    ROW = WIDTH + 2 * KV_HEADS * DIM
};

/* One generation step over a cache of LONG tokens. */
static void generate(const struct kernels *kernels, struct attention_config config,
                     struct thread_pool *pool, const float *qkv, void *cache, float *output)
{
    const struct attention_backend *backend = kernels->attention;
    struct attention *attention;
    struct attention_metadata *metadata;
    config.n_heads = HEADS;
    config.n_kv_heads = KV_HEADS;
    config.head_dim = DIM;
    struct attention_limits limits = {.n_sequences_max = 1,
                                      .n_tokens_max = 1,
                                      .kv_len_max = LONG,
                                      .n_heads = HEADS,
                                      .n_kv_heads = KV_HEADS,
                                      .head_dim = DIM,
                                      .cache = config.cache,
                                      .has_multi_block = config.multi_block == CHOICE_ON};
    struct kv_view kv = kv_view_contiguous(cache, 1, KV_HEADS, LONG, DIM, config.cache);
    const uint32_t block = 0;
    struct attention_sequence sequence = {.phase = PHASE_GENERATION,
                                          .query_len = 1,
                                          .kv_len = LONG,
                                          .block_ids = &block,
                                          .n_blocks = 1};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    cr_assert_eq(backend->create(&config, pool, &attention, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&limits, pool, &metadata, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, NULL), STATUS_OK);
    struct attention_io io = attention_io_fused(&config, qkv, WIDTH + 2 * KV_HEADS * DIM, output,
                                                WIDTH);
    cr_assert_eq(backend->forward(attention, metadata, &io, NULL), STATUS_OK);
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
}

static void check_choices(const struct kernels *kernels, enum dtype cache, struct thread_pool *pool)
{
    const size_t n = 2 * KV_HEADS * LONG * DIM;
    char *keys = calloc(n, dtype_bytes(cache));
    float qkv[WIDTH + 2 * KV_HEADS * DIM], plain[WIDTH], output[WIDTH];
    cr_assert_not_null(keys);
    for (size_t i = 0; i < n; i++)
        dtype_store(cache, keys, i, 2 * values_at(3, 0, i));
    for (size_t i = 0; i < sizeof qkv / sizeof qkv[0]; i++)
        qkv[i] = values_at(3, 1, i);
    struct attention_config config = {
        .cache = cache, .k_scale = 0.5f, .v_scale = 0.5f, .multi_block = CHOICE_OFF};
    generate(kernels, config, NULL, qkv, keys, plain);
    for (enum attention_choice split = CHOICE_AUTO; split <= CHOICE_OFF; split++)
        for (enum attention_choice group = CHOICE_AUTO; group <= CHOICE_OFF; group++) {
            config.multi_block = split;
            config.grouped = group;
            generate(kernels, config, pool, qkv, keys, output);
            cr_assert_eq(memcmp(output, plain, sizeof plain), 0,
                         "%s: multi_block %d, grouped %d, cache %s", kernels->name, (int)split,
                         (int)group, dtype_name(cache));
        }
    free(keys);
}

/* A chunk of a prompt: queries first .. first + n_queries - 1. */
static void attend_prompt(const struct kernels *kernels, struct attention_config config,
                          struct thread_pool *pool, uint32_t first, uint32_t n_queries,
                          const float *qkv, void *cache, float *output)
{
    const struct attention_backend *backend = kernels->attention;
    struct attention *attention;
    struct attention_metadata *metadata;
    const uint32_t block = 0;
    config.n_heads = HEADS;
    config.n_kv_heads = KV_HEADS;
    config.head_dim = DIM;
    struct attention_limits limits = {.n_sequences_max = 1,
                                      .n_tokens_max = n_queries,
                                      .kv_len_max = LONG,
                                      .n_heads = HEADS,
                                      .n_kv_heads = KV_HEADS,
                                      .head_dim = DIM,
                                      .cache = config.cache};
    struct kv_view kv = kv_view_contiguous(cache, 1, KV_HEADS, LONG, DIM, config.cache);
    struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                          .query_len = n_queries,
                                          .kv_len = first + n_queries,
                                          .prompt_len = first + n_queries,
                                          .block_ids = &block,
                                          .n_blocks = 1};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    cr_assert_eq(backend->create(&config, pool, &attention, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&limits, pool, &metadata, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, NULL), STATUS_OK);
    struct attention_io io = attention_io_fused(&config, qkv + (size_t)first * ROW, ROW,
                                                output + (size_t)first * WIDTH, WIDTH);
    cr_assert_eq(backend->forward(attention, metadata, &io, NULL), STATUS_OK);
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
}

/* ONE_ROW: rows one by one take most of the time, and the cache's type matters little to them. */
#if defined KVFERRY_SANITIZED_THREAD /* the others have no threads of their own */
#define IS_LOOKED_AT(cache_dtype) ((cache_dtype) == DTYPE_BF16)
#define ONE_ROW(cache_dtype)      false
#elif defined KVFERRY_SANITIZED /* the others have no memory of their own */
#define IS_LOOKED_AT(cache_dtype) ((cache_dtype) == DTYPE_BF16 || (cache_dtype) == DTYPE_INT8)
#define ONE_ROW(cache_dtype)      ((cache_dtype) == DTYPE_BF16)
#else
#define IS_LOOKED_AT(cache_dtype) true
#define ONE_ROW(cache_dtype)      true
#endif

/* Slots that no chunk has written yet are NaN. */
static void check_chunks(const struct kernels *kernels, enum attention_math math,
                         enum dtype cache_dtype, struct thread_pool *pool, const float *qkv,
                         float *whole, float *pieces)
{
    struct attention_config config = {
        .cache = cache_dtype, .k_scale = 0.01f, .v_scale = 0.01f, .math = math};
    const size_t bytes = (size_t)2 * KV_HEADS * LONG * DIM * dtype_bytes(cache_dtype);
    char *cache = malloc(bytes);
    cr_assert_not_null(cache);
    memset(cache, 0xff, bytes);
    attend_prompt(kernels, config, NULL, 0, LONG, qkv, cache, whole);
    for (uint32_t chunk = ONE_ROW(cache_dtype) ? 1 : 43; chunk < LONG; chunk = 3 * chunk + 40) {
        memset(cache, 0xff, bytes);
        for (uint32_t first = 0; first < LONG; first += chunk)
            attend_prompt(kernels, config, chunk % 2 ? pool : NULL, first,
                          LONG - first < chunk ? LONG - first : chunk, qkv, cache, pieces);
        cr_assert_eq(memcmp(pieces, whole, (size_t)LONG * WIDTH * sizeof *whole), 0,
                     "%s: chunks of %u, cache %s", kernels->name, chunk, dtype_name(cache_dtype));
    }
    free(cache);
}

/* One row, a few, blocks of them; one range of keys and several, side by side or not. */
Test(cpu_attention, chunks_and_threads_change_no_bit_of_half_maths)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = cpu_kernels(list);
    struct thread_pool *pool;
    float *qkv = malloc((size_t)LONG * ROW * sizeof *qkv);
    float *whole = malloc((size_t)LONG * WIDTH * sizeof *whole);
    float *pieces = malloc((size_t)LONG * WIDTH * sizeof *pieces);
    cr_assert(qkv && whole && pieces);
    cr_assert_eq(thread_pool_create(N_THREADS, false, &pool), STATUS_OK);
    for (size_t i = 0; i < (size_t)LONG * ROW; i++)
        qkv[i] = 2 * values_at(5, 0, i);
    for (uint32_t k = 0; k < n; k++)
        for (enum dtype cache = DTYPE_F32; cache <= DTYPE_E4M3; cache++)
            for (enum attention_math math = MATH_BF16; math <= MATH_FP16; math++)
                if (strcmp(list[k]->name, "scalar") != 0 && IS_LOOKED_AT(cache))
                    check_chunks(list[k], math, cache, pool, qkv, whole, pieces);
    thread_pool_destroy(pool);
    free(qkv);
    free(whole);
    free(pieces);
}

Test(cpu_attention, ranges_groups_and_threads_change_no_bit)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = cpu_kernels(list);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(N_THREADS, false, &pool), STATUS_OK);
    for (uint32_t k = 0; k < n; k++)
        for (enum dtype cache = DTYPE_F32; cache <= DTYPE_E4M3; cache++)
            check_choices(list[k], cache, pool);
    thread_pool_destroy(pool);
}
