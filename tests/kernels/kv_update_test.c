/* kv_update: every slot holds the last token that belongs there, rounded once, for every input, cache
 * and layout; nothing else is written; every set agrees; what cannot be done is refused. */
#include "base/thread_pool.h"
#include "kernels/kv_update.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/rows.h"
#include "tests/runner/one_thread.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    N_SEQUENCES = 4,
    HEADS = 2,
    DIM = 24,
    LAYERS = 2,
    LAYER = 1,
    BLOCKS = 29, /* a prime: ids are scattered by a factor */
    BLOCKS_EACH = 6,
    BLOCK_TOKENS = 8,
    ROW_TOKENS = 43, /* of a contiguous cache */
    PADDED_LEN = 41,
    ROWS_MAX = N_SEQUENCES * PADDED_LEN,
    N_POSITIONS = 64,
    ROW_GAP = 5
};

static const uint32_t lens[N_SEQUENCES] = {5, 0, 40, 1};
static const uint32_t write_indices[N_SEQUENCES] = {3, 7, 0, 30};

enum layout { PAGED, PAGED_TOKENS_OUTSIDE, CONTIGUOUS, CONTIGUOUS_BY_ID, N_LAYOUTS };
enum feature { PLAIN, BIAS, ROTARY, ROTARY_PART_BIAS_POSITIONS, N_FEATURES };

struct update_case {
    enum dtype dtype, cache;
    enum layout layout;
    enum feature feature;
    bool is_padded;
    uint32_t window, sink_tokens;
};

/* A case with its tensors. */
struct written {
    struct kv_update update;
    struct guarded k, v, cache;
    size_t cache_bytes;
    uint16_t k_bias[HEADS * DIM], v_bias[HEADS * DIM]; /* BF16 */
    float cosines[N_POSITIONS * DIM / 2], sines[N_POSITIONS * DIM / 2];
    uint32_t positions[ROWS_MAX];
    uint32_t block_ids[N_SEQUENCES * BLOCKS_EACH];
};

static struct kv_view view_of(enum layout layout, enum dtype cache, void *base)
{
    uint64_t row = DIM * dtype_bytes(cache);
    bool is_paged = layout <= PAGED_TOKENS_OUTSIDE;
    struct kv_view kv = {
        .base = base,
        .n_blocks = is_paged ? BLOCKS : N_SEQUENCES,
        .n_layers = LAYERS,
        .block_tokens = is_paged ? BLOCK_TOKENS : ROW_TOKENS,
        .is_contiguous = !is_paged,
    };
    kv.token_stride = layout == PAGED_TOKENS_OUTSIDE ? HEADS * row : row;
    kv.head_stride = layout == PAGED_TOKENS_OUTSIDE ? row : kv.block_tokens * row;
    kv.kv_stride = HEADS * kv.block_tokens * row;
    kv.layer_stride = 2 * kv.kv_stride;
    kv.block_stride = LAYERS * kv.layer_stride + 16;
    return kv;
}

static uint64_t row_of(const struct kv_update *update, uint32_t sequence, uint32_t i)
{
    uint64_t first = 0;
    for (uint32_t s = 0; s < sequence; s++)
        first += update->padded_len ? update->padded_len : update->lens[s];
    return first + i;
}

/* Blocks that no slot needs have an id that nothing may follow. */
static void scatter_blocks(struct written *written, enum layout layout)
{
    const struct kv_update *update = &written->update;
    for (uint32_t i = 0; i < N_SEQUENCES * BLOCKS_EACH; i++)
        written->block_ids[i] = UINT32_MAX;
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        if (layout == CONTIGUOUS_BY_ID)
            written->block_ids[s] = N_SEQUENCES - 1 - s;
        for (uint32_t i = 0; i < lens[s] && layout <= PAGED_TOKENS_OUTSIDE; i++) {
            uint32_t slot = kv_slot(write_indices[s] + i, update->window, update->sink_tokens);
            uint32_t index = s * BLOCKS_EACH + slot / BLOCK_TOKENS;
            written->block_ids[index] = (7 * index + 3) % BLOCKS;
        }
    }
}

static void fill_rows(const struct kv_update *update, uint64_t seed, void *rows)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (uint32_t i = 0; i < lens[s]; i++)
            for (uint32_t j = 0; j < HEADS * DIM; j++)
                dtype_store(update->dtype, rows, row_of(update, s, i) * update->k_stride + j,
                            values_at(seed, s * 100 + i, j));
}

static void add_feature(struct written *written, enum feature feature)
{
    struct kv_update *update = &written->update;
    bool is_part = feature == ROTARY_PART_BIAS_POSITIONS;
    for (uint32_t i = 0; i < HEADS * DIM; i++) {
        written->k_bias[i] = bf16_from_f32(values_at(8, 0, i));
        written->v_bias[i] = bf16_from_f32(values_at(9, 0, i));
    }
    update->bias_dtype = DTYPE_BF16;
    update->k_bias = feature == BIAS || is_part ? written->k_bias : NULL;
    update->v_bias = feature == BIAS || is_part ? written->v_bias : NULL;
    uint32_t half = is_part ? 5 : DIM / 2;
    for (uint32_t i = 0; i < N_POSITIONS * half; i++) {
        float angle = 0.37f * (float)(i / half) / (float)(i % half + 1);
        written->cosines[i] = cosf(angle);
        written->sines[i] = sinf(angle);
    }
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        written->positions[i] = (13 * i + 2) % N_POSITIONS;
    if (feature >= ROTARY)
        update->rotary = (struct rotary_table){written->cosines, written->sines, N_POSITIONS,
                                               2 * half, is_part};
    update->positions = is_part ? written->positions : NULL;
}

static struct written *written_create(const struct update_case *test)
{
    struct written *written = calloc(1, sizeof *written);
    struct kv_update *update = &written->update;
    *update = (struct kv_update){
        .dtype = test->dtype,
        .k_stride = HEADS * DIM + ROW_GAP,
        .v_stride = HEADS * DIM + ROW_GAP,
        .n_kv_heads = HEADS,
        .head_dim = DIM,
        .n_sequences = N_SEQUENCES,
        .lens = lens,
        .write_indices = write_indices,
        .padded_len = test->is_padded ? PADDED_LEN : 0,
        .layer_index = LAYER,
        .cache = test->cache,
        .k_scale = 0.021f,
        .v_scale = 0.017f,
        .block_ids = test->layout == CONTIGUOUS ? NULL : written->block_ids,
        .n_blocks = test->layout <= PAGED_TOKENS_OUTSIDE ? BLOCKS_EACH : 1,
        .window = test->window,
        .sink_tokens = test->sink_tokens,
    };
    uint64_t last = row_of(update, N_SEQUENCES - 1, 0) * update->k_stride + HEADS * DIM;
    written->k = guarded_create(last * dtype_bytes(test->dtype));
    written->v = guarded_create(last * dtype_bytes(test->dtype));
    fill_rows(update, 1, written->k.data);
    fill_rows(update, 2, written->v.data);
    update->k = written->k.data;
    update->v = written->v.data;
    struct kv_view kv = view_of(test->layout, test->cache, NULL);
    written->cache_bytes = kv.n_blocks * kv.block_stride - 16;
    written->cache = guarded_create(written->cache_bytes);
    update->kv = view_of(test->layout, test->cache, written->cache.data);
    scatter_blocks(written, test->layout);
    add_feature(written, test->feature);
    return written;
}

static void written_destroy(struct written *written)
{
    guarded_destroy(&written->k);
    guarded_destroy(&written->v);
    guarded_destroy(&written->cache);
    free(written);
}

/* First byte of a head of K in a slot. */
static size_t place_of(const struct kv_update *update, uint32_t sequence, uint32_t head,
                       uint32_t slot)
{
    const struct kv_view *kv = &update->kv;
    uint32_t index = slot / kv->block_tokens;
    uint32_t id = update->block_ids ? update->block_ids[sequence * update->n_blocks + index]
                                    : sequence;
    return id * kv->block_stride + LAYER * kv->layer_stride + head * kv->head_stride +
           slot % kv->block_tokens * kv->token_stride;
}

static double biased(const struct kv_update *update, const void *rows, const uint16_t *bias,
                     uint64_t row, uint32_t column)
{
    double value = (double)dtype_load(update->dtype, rows, row * update->k_stride + column);
    return bias ? value + (double)bf16_to_f32(bias[column]) : value;
}

/* Element i of a head of K, exact. */
static double expected_k(const struct kv_update *update, uint64_t row, uint32_t token,
                         uint32_t head, uint32_t i)
{
    const struct rotary_table *table = &update->rotary;
    uint32_t half = table->rotary_dim / 2;
    if (i >= table->rotary_dim)
        return biased(update, update->k, update->k_bias, row, head * DIM + i);
    uint32_t pair = table->is_interleaved ? i / 2 : i % half;
    bool is_high = table->is_interleaved ? i % 2 : i >= half;
    uint32_t low_index = table->is_interleaved ? 2 * pair : pair;
    uint32_t apart = table->is_interleaved ? 1 : half;
    uint32_t position = update->positions ? update->positions[row] : token;
    double c = (double)table->cos[position * half + pair];
    double s = (double)table->sin[position * half + pair];
    double low = biased(update, update->k, update->k_bias, row, head * DIM + low_index);
    double high = biased(update, update->k, update->k_bias, row, head * DIM + low_index + apart);
    return is_high ? high * c + low * s : low * c - high * s;
}

/* Half a step of the cache's dtype at an exact value, and what float32 rounds on the way. */
static void assert_rounded(enum dtype cache, double scale, double got, double exact,
                           const char *name)
{
    static const double half_steps[] = {0x1p-24, 0x1p-8, 0x1p-11, 0, 0x1p-4};
    bool is_scaled = cache == DTYPE_INT8 || cache == DTYPE_E4M3;
    double unit = is_scaled ? scale : 1;
    double largest = cache == DTYPE_INT8 ? 127 * unit : cache == DTYPE_E4M3 ? 448 * unit : INFINITY;
    double bound = fmax(-largest, fmin(largest, exact));
    double room = half_steps[cache] * fabs(bound) + 1e-6 * (1 + fabs(bound));
    room += cache == DTYPE_INT8 ? unit / 2 : cache == DTYPE_E4M3 ? unit * 0x1p-10 : 0;
    if (!(fabs(got * unit - bound) <= room)) /* the macro is slow */
        cr_assert_fail("%s, %s: %.9g, not %.9g", name, dtype_name(cache), got * unit, exact);
}

static void assert_head(const struct written *written, uint32_t sequence, uint32_t i, uint32_t head,
                        size_t place, const char *name)
{
    const struct kv_update *update = &written->update;
    const char *k = (const char *)written->cache.data + place;
    uint64_t row = row_of(update, sequence, i);
    bool is_scaled = update->cache == DTYPE_INT8 || update->cache == DTYPE_E4M3;
    for (uint32_t j = 0; j < DIM; j++) {
        uint32_t column = head * DIM + j;
        double exact = expected_k(update, row, write_indices[sequence] + i, head, j);
        assert_rounded(update->cache, (double)update->k_scale,
                       (double)dtype_load(update->cache, k, j), exact, name);
        exact = biased(update, update->v, update->v_bias, row, column);
        const char *v = k + update->kv.kv_stride;
        assert_rounded(update->cache, (double)update->v_scale,
                       (double)dtype_load(update->cache, v, j), exact, name);
        if (update->v_bias)
            continue;
        uint8_t rounded[4]; /* one division, one rounding: no bit is free */
        float scale = is_scaled ? update->v_scale : 1;
        dtype_store(update->cache, rounded, 0, (float)exact / scale);
        size_t bytes = dtype_bytes(update->cache);
        if (memcmp(v + j * bytes, rounded, bytes) != 0)
            cr_assert_fail("%s: V of row %u, %u", name, i, column);
    }
}

static void assert_written(const struct written *written, const char *name)
{
    const struct kv_update *update = &written->update;
    size_t head_bytes = DIM * dtype_bytes(update->cache);
    uint8_t *is_written = calloc(written->cache_bytes, 1);
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (uint32_t back = 0; back < lens[s]; back++) {
            uint32_t i = lens[s] - 1 - back; /* the last row of a slot comes first */
            uint32_t slot = kv_slot(write_indices[s] + i, update->window, update->sink_tokens);
            for (uint32_t head = 0; head < HEADS; head++) {
                size_t place = place_of(update, s, head, slot);
                if (is_written[place])
                    continue;
                assert_head(written, s, i, head, place, name);
                memset(is_written + place, 1, head_bytes);
                memset(is_written + place + update->kv.kv_stride, 1, head_bytes);
            }
        }
    const uint8_t *bytes = written->cache.data;
    size_t at = 0;
    while (at < written->cache_bytes && (is_written[at] || bytes[at] == 0xff))
        at++;
    cr_assert_eq(at, written->cache_bytes, "%s: byte %zu, of no slot, was written", name, at);
    free(is_written);
}

static void check_case(const struct update_case *test)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct written *written = written_create(test);
    struct error error = {""};
    uint8_t *first = NULL;
    cr_assert_eq(kv_update_check(&written->update, &error), STATUS_OK, "%s", error.text);
    for (uint32_t k = 0; k < n_list; k++) {
        memset(written->cache.data, 0xff, written->cache_bytes);
        list[k]->kv_update(NULL, &written->update);
        assert_written(written, list[k]->name);
        if (k == 0 || rounds_products(list[k]->name))
            continue; /* the reference rounds float64 */
        if (first)
            cr_assert_arr_eq(written->cache.data, first, written->cache_bytes, "%s", list[k]->name);
        else
            first = memcpy(malloc(written->cache_bytes), written->cache.data, written->cache_bytes);
    }
    free(first);
    written_destroy(written);
}

static void check_layouts(struct update_case test)
{
    static const uint32_t windows[][2] = {{0, 0}, {24, 0}, {24, 5}};
    for (size_t w = 0; w < COUNT(windows); w++)
        for (enum layout layout = PAGED; layout < N_LAYOUTS; layout++)
            for (int padded = 0; padded < 2; padded++) {
                test.window = windows[w][0];
                test.sink_tokens = windows[w][1];
                test.layout = layout;
                test.is_padded = padded;
                check_case(&test);
            }
}

Test(kv_update, every_dtype_feature_and_layout_writes_its_slots, .description = ONE_THREAD)
{
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
        for (enum dtype cache = DTYPE_F32; cache <= DTYPE_E4M3; cache++)
            for (enum feature feature = PLAIN; feature < N_FEATURES; feature++)
                check_layouts(
                    (struct update_case){.dtype = dtype, .cache = cache, .feature = feature});
}

/* 8-bit values beyond the largest stay there, NaN stays NaN or becomes 0, halves go to even. */
Test(kv_update, quantising_saturates_and_keeps_nan)
{
    static const float values[8] = {1e9f, -1e9f, INFINITY, -INFINITY, NAN, 2.5f, -3.5f, 0.25f};
    static const struct {
        enum dtype cache;
        uint8_t codes[8];
    } expected[] = {
        {DTYPE_INT8, {127, (uint8_t)-127, 127, (uint8_t)-127, 0, 2, (uint8_t)-4, 0}},
        {DTYPE_E4M3, {0x7e, 0xfe, 0x7e, 0xfe, 0x7f, 0x42, 0xc6, 0x28}},
    };
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (size_t e = 0; e < COUNT(expected); e++)
        for (uint32_t k = 0; k < n_list; k++) {
            uint8_t cache[16];
            struct kv_update update = {
                .k = values,
                .v = values,
                .k_stride = 8,
                .v_stride = 8,
                .n_kv_heads = 1,
                .head_dim = 8,
                .n_sequences = 1,
                .lens = (const uint32_t[]){1},
                .write_indices = (const uint32_t[]){0},
                .kv = {cache, 16, 16, 8, 8, 8, 1, 1, 1, true},
                .cache = expected[e].cache,
                .k_scale = 1,
                .v_scale = 1,
            };
            struct error error = {""};
            cr_assert_eq(kv_update_check(&update, &error), STATUS_OK, "%s", error.text);
            list[k]->kv_update(NULL, &update);
            for (uint32_t i = 0; i < 16; i++)
                cr_assert_eq(cache[i] & (isnan(values[i % 8]) ? 0x7f : 0xff),
                             expected[e].codes[i % 8], "%s, %s: %g is %#x", list[k]->name,
                             dtype_name(expected[e].cache), (double)values[i % 8], cache[i]);
        }
}

Test(kv_update, threads_and_repeats_change_no_bit)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    struct update_case test = {
        .cache = DTYPE_E4M3, .feature = ROTARY, .window = 24, .sink_tokens = 16};
    struct written *written = written_create(&test);
    /* One sequence of many rows, which meet in the slots of its window. */
    enum { N_ROWS = 2000 };
    struct rows k_rows = rows_random(N_ROWS, HEADS * DIM, 1);
    struct rows v_rows = rows_random(N_ROWS, HEADS * DIM, 2);
    uint32_t *positions = calloc(N_ROWS, sizeof *positions);
    struct kv_update *update = &written->update;
    update->k = k_rows.data;
    update->v = v_rows.data;
    update->k_stride = update->v_stride = k_rows.stride;
    update->n_sequences = 1;
    update->lens = (const uint32_t[]){N_ROWS};
    update->positions = positions;
    for (uint32_t b = 0; b < BLOCKS_EACH; b++)
        written->block_ids[b] = b;
    struct error error = {""};
    cr_assert_eq(kv_update_check(update, &error), STATUS_OK, "%s", error.text);
    for (uint32_t k = 0; k < n_list; k++) {
        list[k]->kv_update(NULL, update);
        uint8_t *alone = memcpy(malloc(written->cache_bytes), written->cache.data,
                                written->cache_bytes);
        for (uint32_t repeat = 0; repeat < 5; repeat++) {
            memset(written->cache.data, 0xff, written->cache_bytes);
            list[k]->kv_update(pool, update);
            cr_assert_arr_eq(written->cache.data, alone, written->cache_bytes, "%s", list[k]->name);
        }
        free(alone);
    }
    free(positions);
    rows_destroy(&k_rows);
    rows_destroy(&v_rows);
    written_destroy(written);
    thread_pool_destroy(pool);
}

Test(kv_update, a_pool_may_exceed_four_gibibytes)
{
    const uint64_t stride = 3ull << 30;
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    char *pool = mmap(NULL, 3 * stride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(pool, MAP_FAILED);
    struct update_case test = {.dtype = DTYPE_F32, .cache = DTYPE_F32};
    for (uint32_t k = 0; k < n_list; k++) {
        struct written *written = written_create(&test);
        written->update.kv.base = pool;
        written->update.kv.n_blocks = 3;
        written->update.kv.block_stride = stride;
        written->update.n_sequences = 1; /* five rows from token 3 on: one block */
        written->block_ids[0] = 2;
        struct error error = {""};
        cr_assert_eq(kv_update_check(&written->update, &error), STATUS_OK, "%s", error.text);
        list[k]->kv_update(NULL, &written->update);
        const char *place = pool + place_of(&written->update, 0, 1, 7);
        cr_assert_gt(place - pool, 6ll << 30);
        cr_assert_eq(dtype_load(DTYPE_F32, place, 3), values_at(1, 4, DIM + 3), "%s",
                     list[k]->name);
        memset(pool + 2 * stride, 0, 1 << 16);
        written_destroy(written);
    }
    munmap(pool, 3 * stride);
}

static void assert_refused(const struct kv_update *bad, const char *words)
{
    struct error error = {""};
    cr_assert_eq(kv_update_check(bad, &error), STATUS_INVALID_ARGUMENT, "%s", words);
    cr_assert(strstr(error.text, words), "\"%s\" is not in: %s", words, error.text);
}

static struct written *good_update(enum feature feature, enum layout layout)
{
    struct written *good = written_create(&(struct update_case){
        .cache = DTYPE_INT8, .feature = feature, .layout = layout, .is_padded = true});
    struct error error = {""};
    cr_assert_eq(kv_update_check(&good->update, &error), STATUS_OK, "%s", error.text);
    return good;
}

Test(kv_update, sizes_dtypes_and_scales_are_refused_by_name)
{
    struct written *good = good_update(BIAS, PAGED);
    struct kv_update bad = good->update;
    bad.dtype = DTYPE_INT8;
    assert_refused(&bad, "dtype is 3");
    bad = good->update, bad.head_dim = 20;
    assert_refused(&bad, "head_dim is 20");
    bad = good->update, bad.n_kv_heads = 0;
    assert_refused(&bad, "n_kv_heads is 0");
    bad = good->update, bad.k_stride = HEADS * DIM - 1;
    assert_refused(&bad, "k_stride 47");
    bad = good->update, bad.v_stride = 0;
    assert_refused(&bad, "v_stride 0");
    bad = good->update, bad.bias_dtype = DTYPE_E4M3;
    assert_refused(&bad, "bias_dtype is 4");
    bad = good->update, bad.cache = DTYPE_E2M1;
    assert_refused(&bad, "cache is 5");
    bad = good->update, bad.k_scale = 0;
    assert_refused(&bad, "k_scale is 0");
    bad = good->update, bad.v_scale = NAN;
    assert_refused(&bad, "v_scale is nan");
    bad = good->update, bad.k = NULL;
    assert_refused(&bad, "k is NULL");
    bad = good->update, bad.v = NULL;
    assert_refused(&bad, "v is NULL");
    bad = good->update, bad.lens = NULL;
    assert_refused(&bad, "lens is NULL");
    bad = good->update, bad.write_indices = NULL;
    assert_refused(&bad, "write_indices is NULL");
    bad = good->update, bad.block_ids = NULL;
    assert_refused(&bad, "block_ids is NULL");
    bad = good->update, bad.kv.base = NULL;
    assert_refused(&bad, "kv.base is NULL");
    written_destroy(good);
}

static const uint32_t zeros[N_SEQUENCES * BLOCKS_EACH];

Test(kv_update, caches_that_do_not_hold_it_are_refused_by_name)
{
    struct written *good = good_update(PLAIN, PAGED);
    struct error error = {""};
    struct kv_update bad = good->update;
    bad.kv.block_tokens = 12;
    assert_refused(&bad, "kv.block_tokens is 12");
    bad = good->update, bad.layer_index = LAYERS;
    assert_refused(&bad, "layer_index is 2");
    bad = good->update, bad.sink_tokens = 4;
    assert_refused(&bad, "sink_tokens is 4");
    bad = good->update, bad.window = 16, bad.sink_tokens = 16;
    assert_refused(&bad, "sink_tokens is 16");
    bad = good->update, bad.kv.token_stride = DIM - 1;
    assert_refused(&bad, "kv.token_stride 23");
    bad = good->update, bad.kv.head_stride = BLOCK_TOKENS * DIM - 1;
    assert_refused(&bad, "kv.head_stride 191");
    bad = good->update, bad.kv.kv_stride -= 1;
    assert_refused(&bad, "kv.kv_stride is 383");
    bad = good->update, bad.kv.layer_stride = 0;
    assert_refused(&bad, "kv.layer_stride is 0");
    bad.kv.n_layers = 1; /* one place, which any layer may have */
    cr_assert_eq(kv_update_check(&bad, &error), STATUS_OK, "%s", error.text);
    bad = good->update, bad.kv.block_stride = 100;
    assert_refused(&bad, "kv.block_stride is 100");
    bad = good->update, bad.padded_len = 39;
    assert_refused(&bad, "lens[2] is 40");
    bad = good->update, bad.n_blocks = 4, bad.block_ids = zeros;
    assert_refused(&bad, "goes to slot 32, 4 blocks hold 32");
    bad = good->update, bad.kv.n_blocks = 17;
    assert_refused(&bad, "the view has 17 blocks");
    bad = good->update, bad.write_indices = (const uint32_t[]){UINT32_MAX - 4, 0, 0, 0};
    assert_refused(&bad, "write_indices[0] is 4294967291");
    written_destroy(good);

    good = good_update(PLAIN, CONTIGUOUS);
    bad = good->update, bad.kv.block_tokens = 39;
    assert_refused(&bad, "token 39 goes to slot 39");
    bad = good->update, bad.kv.block_tokens = 0;
    assert_refused(&bad, "kv.block_tokens is 0");
    bad = good->update, bad.kv.n_blocks = 3;
    assert_refused(&bad, "the view has 3 blocks");
    bad = good->update, bad.n_blocks = 2, bad.block_ids = lens;
    assert_refused(&bad, "n_blocks is 2");
    written_destroy(good);
}

Test(kv_update, angles_that_are_missing_are_refused_by_name)
{
    struct written *good = good_update(ROTARY, PAGED);
    struct kv_update bad = good->update;
    bad.rotary.rotary_dim = DIM + 2;
    assert_refused(&bad, "rotary_dim is 26");
    bad = good->update, bad.rotary.cos = NULL;
    assert_refused(&bad, "cos is NULL");
    bad = good->update, bad.rotary.n_positions = 39;
    assert_refused(&bad, "its last token is 39");
    written_destroy(good);

    good = good_update(ROTARY_PART_BIAS_POSITIONS, PAGED);
    bad = good->update;
    good->positions[2 * PADDED_LEN + 39] = N_POSITIONS;
    assert_refused(&bad, "positions[121] is 64");
    good->positions[2 * PADDED_LEN + 39] = 0;
    good->positions[2 * PADDED_LEN + 40] = N_POSITIONS; /* padding is not read */
    struct error error = {""};
    cr_assert_eq(kv_update_check(&bad, &error), STATUS_OK, "%s", error.text);
    written_destroy(good);
}
