/* layer_update: rows of K and V land where the reference puts them, with its values, and nothing else is written. */
#include "kernels/cuda/cuda.h"
#include "kernels/kernels.h"
#include "kernels/kv_update.h"
#include "tests/simt/device_array.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 3, KV_HEADS = 2, BLOCKS = 12, SEQUENCE_BLOCKS = 4, POSITIONS = 64, ROWS = 60 };

struct update_case {
    uint32_t head_dim, rotary_dim, block_tokens;
    enum dtype dtype, cache;
    uint32_t window, sink_tokens, padded_len;
    bool is_contiguous, is_interleaved, has_bias, has_positions;
};

static const uint32_t lens[SEQUENCES] = {7, 0, 19}, firsts[SEQUENCES] = {3, 0, 9};

struct update_arrays {
    struct device_array k, v, bias, lens, firsts, blocks, positions, angles, pool;
};

static struct device_array words(struct device *device, const uint32_t *from, uint32_t n)
{
    struct device_array array = device_array_create(device, n * sizeof *from);
    memcpy(array.data, from, n * sizeof *from);
    return array;
}

static struct update_arrays make_arrays(struct device *device, const struct update_case *c)
{
    const uint32_t n = KV_HEADS * c->head_dim, half = POSITIONS * (c->rotary_dim / 2) + 1;
    uint32_t blocks[SEQUENCES * SEQUENCE_BLOCKS], positions[ROWS];
    for (uint32_t i = 0; i < SEQUENCES * SEQUENCE_BLOCKS; i++)
        blocks[i] = (i * 5 + 2) % BLOCKS;
    for (uint32_t i = 0; i < ROWS; i++)
        positions[i] = (i * 11 + 3) % POSITIONS;
    return (struct update_arrays){
        .k = device_rows(device, c->dtype, &(uint32_t[3]){ROWS, n, n + 4}, 1),
        .v = device_rows(device, c->dtype, &(uint32_t[3]){ROWS, n, n + 4}, 2),
        .bias = device_rows(device, DTYPE_BF16, &(uint32_t[3]){2, n, n}, 3),
        .lens = words(device, lens, SEQUENCES),
        .firsts = words(device, firsts, SEQUENCES),
        .blocks = words(device, blocks, SEQUENCES * SEQUENCE_BLOCKS),
        .positions = words(device, positions, ROWS),
        .angles = device_rows(device, DTYPE_F32, &(uint32_t[3]){2, half, half}, 4),
        .pool = device_array_create(device, 2ull * BLOCKS * KV_HEADS * c->block_tokens *
                                                c->head_dim * dtype_bytes(c->cache)),
    };
}

static struct kv_update update_of(const struct update_case *c, const struct update_arrays *arrays)
{
    const uint32_t n = KV_HEADS * c->head_dim, half = POSITIONS * (c->rotary_dim / 2) + 1;
    return (struct kv_update){
        .k = arrays->k.data,
        .v = arrays->v.data,
        .dtype = c->dtype,
        .k_stride = n + 4,
        .v_stride = n + 4,
        .n_kv_heads = KV_HEADS,
        .head_dim = c->head_dim,
        .n_sequences = SEQUENCES,
        .lens = arrays->lens.data,
        .write_indices = arrays->firsts.data,
        .padded_len = c->padded_len,
        .kv = c->is_contiguous ? kv_view_contiguous(arrays->pool.data, BLOCKS, KV_HEADS,
                                                    c->block_tokens, c->head_dim, c->cache)
                               : kv_view_dense(arrays->pool.data, BLOCKS, 1, KV_HEADS,
                                               c->block_tokens, c->head_dim, c->cache),
        .cache = c->cache,
        .k_scale = 0.013f,
        .v_scale = 0.011f,
        .block_ids = c->is_contiguous ? NULL : arrays->blocks.data,
        .n_blocks = c->is_contiguous ? 1 : SEQUENCE_BLOCKS,
        .window = c->window,
        .sink_tokens = c->sink_tokens,
        .k_bias = c->has_bias ? arrays->bias.data : NULL,
        .v_bias = c->has_bias ? (uint16_t *)arrays->bias.data + n : NULL,
        .bias_dtype = DTYPE_BF16,
        .rotary = {arrays->angles.data, (float *)arrays->angles.data + half, POSITIONS,
                   c->rotary_dim, c->is_interleaved},
        .positions = c->has_positions ? arrays->positions.data : NULL,
    };
}

/* Rounded once from float32 and from float64: a step of the format apart, or the float32 error. */
static void assert_pool(const struct update_case *c, const void *got, const void *want,
                        size_t bytes)
{
    const size_t size = dtype_bytes(c->cache);
    const float step = c->cache == DTYPE_E4M3 ? 0.13f : c->cache == DTYPE_BF16 ? 8e-3f : 1e-3f;
    for (size_t i = 0; i < bytes / size; i++) {
        if (is_poison((const uint8_t *)want + i * size, size)) {
            cr_assert(is_poison((const uint8_t *)got + i * size, size),
                      "slot element %zu is written", i);
            continue;
        }
        const float g = dtype_load(c->cache, got, i), w = dtype_load(c->cache, want, i);
        const float limit = c->cache == DTYPE_INT8  ? 1
                            : c->cache == DTYPE_F32 ? 1e-6f + 1e-5f * fabsf(w)
                                                    : 2e-6f + step * fabsf(w);
        cr_assert(fabsf(g - w) <= limit, "element %zu is %g, not %g", i, (double)g, (double)w);
    }
}

static void check_update(const struct update_case *c, uint32_t schedule)
{
    struct device *device = schedule_open(schedule);
    struct update_arrays arrays = make_arrays(device, c);
    const struct kv_update update = update_of(c, &arrays);
    struct error error = {""};
    const struct kernels *reference;
    uint8_t *expected = malloc(arrays.pool.bytes);
    struct kv_update host = update;
    memset(expected, 0xff, arrays.pool.bytes);
    host.kv.base = expected;
    cr_assert_eq(kernels_select("reference", &reference, NULL), STATUS_OK);
    cr_assert_eq(kv_update_check(&host, &error), STATUS_OK, "%s", error.text);
    reference->kv_update(NULL, &host);
    cuda_kernels.kv_update(NULL, &update);
    assert_pool(c, arrays.pool.data, expected, arrays.pool.bytes);
    free(expected);
    struct device_array *all[] = {&arrays.k,         &arrays.v,      &arrays.bias,
                                  &arrays.lens,      &arrays.firsts, &arrays.blocks,
                                  &arrays.positions, &arrays.angles, &arrays.pool};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_array_destroy(all[i]);
    schedule_close(device);
}

Test(update, every_layout_and_format_is_written_as_the_reference_does)
{
    const struct update_case cases[] = {
        {64, 64, 8, DTYPE_F32, DTYPE_F32, 0, 0, 0, false, false, false, false},
        {64, 0, 16, DTYPE_BF16, DTYPE_BF16, 0, 0, 20, false, false, true, false},
        {32, 16, 8, DTYPE_BF16, DTYPE_E4M3, 0, 0, 0, false, true, true, true},
        {96, 96, 8, DTYPE_F16, DTYPE_INT8, 0, 0, 0, false, false, false, true},
        {8, 8, 40, DTYPE_F32, DTYPE_F16, 0, 0, 19, true, true, false, false},
        {16, 8, 8, DTYPE_F32, DTYPE_F32, 12, 0, 0, false, false, true, false},
        {16, 16, 30, DTYPE_BF16, DTYPE_BF16, 11, 3, 20, true, false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++)
            check_update(&cases[i], schedule);
}

/* ---- eight bits ---- */

enum { HEAD = 256, N_VALUES = 2 * HEAD };

/* What stands between two neighbours of a format, what is next to it, and what is beyond all of them. */
static void make_ties(enum dtype cache, float values[N_VALUES])
{
    for (uint32_t i = 0; i < 127; i++) {
        const uint8_t ends[2] = {(uint8_t)i, (uint8_t)(i + 1)};
        const float middle = (dtype_load(cache, ends, 0) + dtype_load(cache, ends, 1)) / 2;
        const float tie = isnan(middle) ? 1000 : middle;
        values[4 * i] = tie;
        values[4 * i + 1] = -tie;
        values[4 * i + 2] = nextafterf(tie, 0);
        values[4 * i + 3] = nextafterf(tie, 2000);
    }
    const float others[] = {NAN, 1e-12f, INFINITY, 0};
    memcpy(values + N_VALUES - 4, others, sizeof others);
}

static void check_rounding(struct device *device, enum dtype cache)
{
    struct device_array rows = device_array_create(device, N_VALUES * sizeof(float));
    struct device_array lens = words(device, &(uint32_t){1}, 1);
    struct device_array first = words(device, &(uint32_t){0}, 1);
    struct device_array pool = device_array_create(device, 8 * N_VALUES);
    float *values = rows.data;
    make_ties(cache, values);
    const struct kv_update update = {
        .k = values,
        .v = values + HEAD,
        .k_stride = N_VALUES,
        .v_stride = N_VALUES,
        .n_kv_heads = 1,
        .head_dim = HEAD,
        .n_sequences = 1,
        .lens = lens.data,
        .write_indices = first.data,
        .kv = kv_view_contiguous(pool.data, 1, 1, 8, HEAD, cache),
        .cache = cache,
        .k_scale = 1,
        .v_scale = 1,
        .n_blocks = 1,
    };
    cuda_kernels.kv_update(NULL, &update);
    for (uint32_t i = 0; i < N_VALUES; i++) {
        const uint8_t *got = (const uint8_t *)pool.data + i / HEAD * update.kv.kv_stride;
        uint8_t expected;
        dtype_store(cache, &expected, 0, values[i]);
        cr_assert_eq(got[i % HEAD], expected, "%s of %a: %u", dtype_name(cache), (double)values[i],
                     got[i % HEAD]);
    }
    struct device_array *all[] = {&rows, &lens, &first, &pool};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_array_destroy(all[i]);
}

Test(update, eight_bits_are_rounded_to_nearest_even)
{
    struct device *device = schedule_open(0);
    check_rounding(device, DTYPE_INT8);
    check_rounding(device, DTYPE_E4M3);
    schedule_close(device);
}
