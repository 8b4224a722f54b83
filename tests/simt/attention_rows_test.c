/* attention on a device gives the reference's rows where the case table seldom looks: a cyclic cache with sinks, weights and
 * elements at the ends of a format, slots out of sight that hold NaN, ranges that begin before the first key in sight. INT8
 * math has the CPU's rows. */
#include "kernels/cuda/attention.h"
#include "kernels/reference/attention.h"
#include "tests/simt/layer_device.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum {
    PROMPT = 20,
    WIDTH = LAYER_HEADS * LAYER_DIM,
    KV_WIDTH = LAYER_KV_HEADS * LAYER_DIM,
    WINDOW = 16,
};

static const struct attention_backend *const BACKENDS[] = {&cuda_attention_masked,
                                                           &cuda_attention_reference};
enum { N_BACKENDS = sizeof BACKENDS / sizeof BACKENDS[0] };

static void open_device(void)
{
    layer_device_open(4, 3);
}

TestSuite(attention_rows, .init = open_device, .fini = layer_device_close);

/* What every back end of a device makes of a run is near what another one makes of it. added: to Q, K and V; NULL: nothing. */
static void check_run(const struct attention_backend *oracle, struct attention_config config,
                      const struct layer_run *run, const float *added, double bound,
                      const char *what)
{
    static struct layer_rows got, expected;
    struct layer host = layer_open(oracle, config, false);
    host.bias = added;
    layer_run(&host, run, &expected);
    layer_close(&host);
    for (uint32_t i = 0; i < N_BACKENDS; i++) {
        struct layer layer = layer_device_layer(BACKENDS[i], &config, false);
        layer.bias = added;
        layer_run(&layer, run, &got);
        layer_assert_near(&got, 0, &expected, 0, LAYER_LEN_MAX, bound, what);
        layer_device_finish(&layer);
    }
}

/* A sequence of LAYER_LEN_MAX tokens, the prompt whole. */
static void check_near(struct attention_config config, uint32_t prompt_len, const float *added,
                       double bound, const char *what)
{
    const struct layer_run run = {.len = LAYER_LEN_MAX, .prompt_len = prompt_len};
    check_run(&reference_attention, config, &run, added, bound, what);
}

Test(attention_rows, a_cyclic_cache_goes_round_behind_its_sinks)
{
    const struct attention_config config = {.window = WINDOW, .is_cyclic = true, .sink_tokens = 3};
    check_near(config, PROMPT, NULL, 1e-5, "cyclic with sinks");
}

/* Most keys weigh less than the smallest number of E4M3, which 256 p is not. */
Test(attention_rows, weights_are_rounded_to_eight_bits_in_units_of_their_own)
{
    static float table[LAYER_HEADS][LAYER_LEN_MAX][LAYER_LEN_MAX], added[WIDTH + 2 * KV_WIDTH];
    for (uint32_t h = 0; h < LAYER_HEADS; h++)
        for (uint32_t q = 0; q < LAYER_LEN_MAX; q++)
            for (uint32_t k = 1; k < LAYER_LEN_MAX; k++)
                table[h][q][k] = -7.2f;
    for (uint32_t i = 0; i < KV_WIDTH; i++)
        added[WIDTH + KV_WIDTH + i] = 4; /* V */
    const struct attention_config config = {
        .math = MATH_FP8,
        .q_scale = 0.01f,
        .k_scale = 0.01f,
        .v_scale = 0.02f,
        .scale = 1e-3f,
        .bias = {.table = table[0][0], .n_queries = LAYER_LEN_MAX, .n_keys = LAYER_LEN_MAX}};
    check_near(config, LAYER_LEN_MAX, added, 2e-2, "small weights");
}

Test(attention_rows, elements_beyond_fp16_become_its_largest)
{
    static float added[WIDTH + 2 * KV_WIDTH];
    for (uint32_t i = 0; i < KV_WIDTH; i++)
        added[WIDTH + KV_WIDTH + i] = i % 2 ? 1e5f : -1e5f;
    check_near((struct attention_config){.math = MATH_FP16}, LAYER_LEN_MAX, added, 1e-3, "V");
}

Test(attention_rows, a_learned_sink_of_minus_infinity_is_none)
{
    static float sinks[LAYER_HEADS];
    for (uint32_t i = 0; i < LAYER_HEADS; i++)
        sinks[i] = i % 2 ? 0.5f : -INFINITY;
    layer_device_adopt(sinks, sizeof sinks);
    check_near((struct attention_config){.sinks = sinks}, PROMPT, NULL, 1e-5, "sinks");
}

/* ---- INT8 math ---- */

static const struct attention_backend *scalar(void)
{
    const struct kernels *kernels;
    struct error error = {""};
    cr_assert_eq(kernels_select("scalar", &kernels, &error), STATUS_OK, "%s", error.text);
    return kernels->attention;
}

/* Two implementations of the same rounding differ by that of float32: far less than it costs itself. */
static void check_int8(struct attention_config config, uint32_t chunk, const float *added)
{
    const struct layer_run run = {.len = LAYER_LEN_MAX, .prompt_len = 88, .chunk = chunk};
    check_run(scalar(), config, &run, added, 1e-5, "the CPU");
}

/* What all keys have in common is large, and falls out with the mean of their tile. */
Test(attention_rows, int8_math_is_that_of_the_cpu)
{
    static const struct attention_config configs[] = {
        {.math = MATH_INT8},
        {.math = MATH_INT8_PV_FP8, .cache = DTYPE_BF16, .soft_cap = 4},
        {.math = MATH_INT8, .window = 26, .cache = DTYPE_F16},
        {.math = MATH_INT8_PV_FP8, .window = 50, .is_cyclic = true},
        {.math = MATH_INT8_PV_FP8, .cache = DTYPE_INT8, .k_scale = 0.02f, .v_scale = 0.01f},
        {.math = MATH_INT8_PV_FP8, .cache = DTYPE_E4M3, .k_scale = 0.02f, .v_scale = 0.01f},
    };
    static float added[WIDTH + 2 * KV_WIDTH];
    for (uint32_t i = 0; i < KV_WIDTH; i++)
        added[WIDTH + i] = i % 2 ? 2 : -1;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        check_int8(configs[i], 0, added);
        check_int8(configs[i], 24, added);
    }
}

/* ---- slots out of sight ---- */

/* K and V of tokens before end, in the blocks of layer_run. */
static void poison_before(struct layer *layer, uint32_t end)
{
    const struct kv_view *kv = &layer->kv;
    for (uint32_t t = 0; t < end; t++) {
        const uint64_t block = LAYER_BLOCKS - 1 - t / LAYER_BLOCK_TOKENS;
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t head = 0; head < LAYER_KV_HEADS; head++)
                memset((uint8_t *)kv->base + block * kv->block_stride + half * kv->kv_stride +
                           head * kv->head_stride + t % LAYER_BLOCK_TOKENS * kv->token_stride,
                       0xff, LAYER_DIM * sizeof(float));
    }
}

/* Tokens len .. len + n - 1, behind len others: one that is generated, or the last chunk of a prompt. */
static void go_on(struct layer *layer, uint32_t len, uint32_t n, struct layer_rows *rows_out)
{
    uint32_t block_ids[LAYER_BLOCKS], tokens[LAYER_LEN_MAX];
    for (uint32_t i = 0; i < LAYER_BLOCKS; i++)
        block_ids[i] = LAYER_BLOCKS - 1 - i;
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = len + i;
    const struct attention_sequence sequence = {.phase = n == 1 ? PHASE_GENERATION : PHASE_CONTEXT,
                                                .query_len = n,
                                                .kv_len = len + n,
                                                .prompt_len = n == 1 ? PROMPT : len + n,
                                                .block_ids = block_ids,
                                                .n_blocks = LAYER_BLOCKS};
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    layer_step(layer, &step, tokens, NULL, rows_out);
}

/* n tokens more, whose first sees none of those before its window. */
static void check_nan(const struct attention_backend *backend, struct attention_config config,
                      uint32_t n)
{
    static struct layer_rows rows, expected;
    enum { LEN = 40 };
    const struct layer_run run = {.len = LEN, .prompt_len = LEN};
    config.window = WINDOW;
    struct layer layer = layer_device_layer(backend, &config, false);
    layer_run(&layer, &run, &rows);
    go_on(&layer, LEN, n, &expected);
    poison_before(&layer, LEN + 1 - WINDOW);
    go_on(&layer, LEN, n, &rows);
    cr_assert_arr_eq(rows.output, expected.output, n * sizeof rows.output[0]);
    cr_assert_arr_eq(rows.lse, expected.lse, n * sizeof rows.lse[0]);
    cr_assert(!isnan(rows.output[0][0]));
    layer_device_finish(&layer);
}

/* n tokens more, which see some of the first n_keys keys, all NaN. */
static void check_told(const struct attention_backend *backend,
                       const struct attention_config *config, uint32_t n, uint32_t n_keys)
{
    static struct layer_rows rows;
    enum { LEN = 40 };
    const struct layer_run run = {.len = LEN, .prompt_len = LEN};
    struct layer layer = layer_device_layer(backend, config, false);
    layer_run(&layer, &run, &rows);
    poison_before(&layer, n_keys);
    go_on(&layer, LEN, n, &rows);
    for (uint32_t row = 0; row < n; row++)
        for (uint32_t i = 0; i < WIDTH; i++)
            cr_assert(isnan(rows.output[row][i]), "%s, path %d, %u keys, row %u: %g", backend->name,
                      (int)config->path, n_keys, row, (double)rows.output[row][i]);
    cr_assert(isnan(rows.lse[0][0]));
    layer_device_finish(&layer);
}

/* Rows that look as if they saw nothing would be answers. One key, all of a tile, and all that a row sees of one. */
Test(attention_rows, a_nan_in_sight_is_told)
{
    enum { TILE = 32 };
    const struct attention_config plain = {.path = PATH_AUTO}, window = {.window = WINDOW},
                                  paths[] = {{.path = PATH_SHORT}, {.path = PATH_UNFUSED}};
    for (uint32_t i = 0; i < N_BACKENDS; i++) {
        check_told(BACKENDS[i], &plain, 1, 1);
        check_told(BACKENDS[i], &plain, 8, 1);
        check_told(BACKENDS[i], &plain, 8, TILE);
        check_told(BACKENDS[i], &window, 1, TILE);
        check_told(&cuda_attention_masked, &paths[i], 8, 1);
        check_told(&cuda_attention_masked, &paths[i], 8, TILE);
    }
}

/* Those before a window, some of them in the tile where it begins. */
Test(attention_rows, slots_out_of_sight_may_hold_nan)
{
    for (uint32_t i = 0; i < N_BACKENDS; i++) {
        check_nan(BACKENDS[i], (struct attention_config){.math = MATH_COMPUTE}, 1);
        check_nan(BACKENDS[i], (struct attention_config){.math = MATH_COMPUTE}, 8);
        check_nan(BACKENDS[i], (struct attention_config){.math = MATH_INT8_PV_FP8}, 8);
    }
}
