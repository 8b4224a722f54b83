/* is_written: a layer that reads the place of another one gives the bits of a layer that writes the same K and V itself, with every back
 * end of the host, cache and math, and writes nothing. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 24,
    WIDTH = HEADS * DIM,
    KV_WIDTH = KV_HEADS * DIM,
    LEN = 75,
    PROMPT = 64,
    BLOCK = 16,
    N_BLOCKS = (LEN + BLOCK - 1) / BLOCK,
    CACHE_BYTES = N_BLOCKS * BLOCK * 2 * KV_WIDTH * 4,
};

static const uint32_t BLOCKS[N_BLOCKS] = {3, 1, 4, 0, 2};
static float q[LEN * WIDTH], k[LEN * KV_WIDTH], v[LEN * KV_WIDTH];

struct way {
    const struct attention_backend *backend;
    struct attention *attention;
    struct attention_metadata *metadata;
    char *cache;
};

static struct way open_way(const struct attention_backend *backend, struct attention_config config)
{
    struct way way = {.backend = backend, .cache = calloc(1, CACHE_BYTES)};
    struct error error = {""};
    config.n_heads = HEADS;
    config.n_kv_heads = KV_HEADS;
    config.head_dim = DIM;
    config.k_scale = config.v_scale = config.q_scale = 1.0f / 64;
    const struct attention_limits limits = {.n_sequences_max = 1,
                                            .n_tokens_max = LEN,
                                            .kv_len_max = LEN,
                                            .n_heads = HEADS,
                                            .n_kv_heads = KV_HEADS,
                                            .head_dim = DIM,
                                            .cache = config.cache};
    cr_assert(way.cache);
    cr_assert_eq(backend->create(&config, NULL, &way.attention, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(backend->metadata_create(&limits, NULL, &way.metadata, &error), STATUS_OK, "%s",
                 error.text);
    return way;
}

static void close_way(struct way *way)
{
    way->backend->destroy(way->attention);
    way->backend->metadata_destroy(way->metadata);
    free(way->cache);
}

/* Tokens first .. first + n - 1, with cache in place of its own if that is given. */
static void step(struct way *way, enum dtype cache_dtype, uint32_t first, uint32_t n,
                 bool is_written, char *cache, float *output)
{
    const bool is_context = first < PROMPT;
    const struct attention_sequence sequence = {.phase = is_context ? PHASE_CONTEXT
                                                                    : PHASE_GENERATION,
                                                .query_len = n,
                                                .kv_len = first + n,
                                                .prompt_len = PROMPT,
                                                .block_ids = BLOCKS,
                                                .n_blocks = N_BLOCKS};
    const struct attention_step one = {.sequences = &sequence, .n_sequences = 1};
    const struct kv_view kv = kv_view_dense(cache ? cache : way->cache, N_BLOCKS, 1, KV_HEADS,
                                            BLOCK, DIM, cache_dtype);
    struct error error = {""};
    cr_assert_eq(way->backend->metadata_prepare(way->metadata, &one, &kv, &error), STATUS_OK, "%s",
                 error.text);
    const struct attention_io io = {.q = q + first * WIDTH,
                                    .k = is_written ? NULL : k + first * KV_WIDTH,
                                    .v = is_written ? NULL : v + first * KV_WIDTH,
                                    .q_stride = WIDTH,
                                    .k_stride = KV_WIDTH,
                                    .v_stride = KV_WIDTH,
                                    .output = output + first * WIDTH,
                                    .output_stride = WIDTH,
                                    .is_written = is_written};
    cr_assert_eq(way->backend->kv_update(way->attention, way->metadata, &io, &error), STATUS_OK);
    cr_assert_eq(way->backend->forward(way->attention, way->metadata, &io, &error), STATUS_OK, "%s",
                 error.text);
}

static void check(const struct kernels *kernels, struct attention_config config)
{
    static float written[LEN * WIDTH], read[LEN * WIDTH];
    static char before[CACHE_BYTES];
    struct way writer = open_way(kernels->attention, config);
    struct way reader = open_way(kernels->attention, config);
    for (uint32_t first = 0, n; first < LEN; first += n) {
        n = first < PROMPT ? 32 : 1;
        step(&writer, config.cache, first, n, false, NULL, written);
        memcpy(before, writer.cache, CACHE_BYTES);
        step(&reader, config.cache, first, n, true, writer.cache, read);
        cr_assert_arr_eq(before, writer.cache, CACHE_BYTES, "%s: nothing is written",
                         kernels->name);
    }
    cr_assert_arr_eq(read, written, sizeof read, "%s, cache %s, math %d", kernels->name,
                     dtype_name(config.cache), (int)config.math);
    close_way(&writer);
    close_way(&reader);
}

static void fill(float *x, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = values_at(seed, 1, i);
}

Test(written_kv, a_layer_reads_what_another_one_wrote)
{
    static const enum attention_math MATHS[] = {MATH_COMPUTE, MATH_BF16, MATH_FP16, MATH_FP8,
                                                MATH_INT8};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = attention_list(list);
    fill(q, LEN * WIDTH, 1);
    fill(k, LEN * KV_WIDTH, 2);
    fill(v, LEN * KV_WIDTH, 3);
    for (uint32_t i = 0; i < n; i++)
        for (size_t m = 0; m < sizeof MATHS / sizeof *MATHS; m++)
            for (enum dtype cache = DTYPE_F32; cache <= DTYPE_E4M3; cache++)
                check(list[i], (struct attention_config){
                                   .cache = cache, .math = MATHS[m], .window = m == 0 ? 20 : 0});
}

Test(written_kv, a_cyclic_cache_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    struct error error = {""};
    (void)attention_list(list);
    const struct attention_config config = {
        .n_heads = HEADS, .n_kv_heads = KV_HEADS, .head_dim = DIM, .window = 32, .is_cyclic = true};
    const struct attention_limits limits = {.n_sequences_max = 1,
                                            .n_tokens_max = LEN,
                                            .kv_len_max = LEN,
                                            .n_heads = HEADS,
                                            .n_kv_heads = KV_HEADS,
                                            .head_dim = DIM,
                                            .window = 32,
                                            .is_cyclic = true};
    struct way way = {.backend = list[0]->attention, .cache = calloc(1, CACHE_BYTES)};
    cr_assert_eq(way.backend->create(&config, NULL, &way.attention, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(way.backend->metadata_create(&limits, NULL, &way.metadata, &error), STATUS_OK);
    const struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                                .query_len = 8,
                                                .kv_len = 8,
                                                .prompt_len = 8,
                                                .block_ids = BLOCKS,
                                                .n_blocks = N_BLOCKS};
    const struct attention_step one = {.sequences = &sequence, .n_sequences = 1};
    const struct kv_view kv = kv_view_dense(way.cache, N_BLOCKS, 1, KV_HEADS, BLOCK, DIM,
                                            DTYPE_F32);
    cr_assert_eq(way.backend->metadata_prepare(way.metadata, &one, &kv, &error), STATUS_OK, "%s",
                 error.text);
    static float output[LEN * WIDTH];
    const struct attention_io io = {
        .q = q, .q_stride = WIDTH, .output = output, .output_stride = WIDTH, .is_written = true};
    cr_assert_eq(way.backend->forward(way.attention, way.metadata, &io, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "is_written with is_cyclic"), "%s", error.text);
    close_way(&way);
}
