/* two ways to ask for the same attention give the same rows, on every back end; what has no second way
 * is compared with the formula written out. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/layer.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define NEAR 1e-5

enum { LEN = 60, PROMPT = 48, WIDTH = LAYER_HEADS * LAYER_DIM };

static const struct layer_run WHOLE = {.len = LEN, .prompt_len = PROMPT};
static const struct layer_run CHUNKED = {.len = LEN, .prompt_len = PROMPT, .chunk = 16};
static struct layer_rows rows, expected;

static struct rope *rope;

static void make_rope(void)
{
    struct rope_config config = {.head_dim = LAYER_DIM,
                                 .rotary_dim = 12,
                                 .is_interleaved = true,
                                 .positions_max = 256,
                                 .theta = 100};
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
}

static void free_rope(void)
{
    rope_destroy(rope);
}

TestSuite(equality, .init = make_rope, .fini = free_rope, .description = ONE_THREAD);

#define FOR_EACH_BACKEND(list, k)                                                                  \
    const struct kernels *list[KERNELS_MAX];                                                       \
    uint32_t n_##list = attention_list(list);                                                      \
    for (uint32_t k = 0; k < n_##list; k++)

static void run_plain(const struct attention_backend *backend, struct attention_config config,
                      const struct layer_run *run, struct layer_rows *rows_out)
{
    struct layer layer = layer_open(backend, config, false);
    layer_run(&layer, run, rows_out);
    layer_close(&layer);
}

/* softmax(scale q K^T) V over the tokens keys[0 .. n - 1] and, if given, a sink. */
static void formula(uint32_t query, const uint32_t *keys, uint32_t n, uint32_t head, float *output,
                    float *lse)
{
    double scores[LAYER_LEN_MAX], total = 0, sums[LAYER_DIM] = {0};
    uint32_t kv_head = head / (LAYER_HEADS / LAYER_KV_HEADS);
    for (uint32_t j = 0; j < n; j++) {
        double dot = 0;
        for (uint32_t i = 0; i < LAYER_DIM; i++)
            dot += (double)layer_q(query, head * LAYER_DIM + i) *
                   (double)layer_k(keys[j], kv_head * LAYER_DIM + i);
        scores[j] = exp(dot / sqrt(LAYER_DIM));
        total += scores[j];
        for (uint32_t i = 0; i < LAYER_DIM; i++)
            sums[i] += scores[j] * (double)layer_v(keys[j], kv_head * LAYER_DIM + i);
    }
    for (uint32_t i = 0; i < LAYER_DIM; i++)
        output[i] = (float)(sums[i] / total);
    *lse = (float)log(total);
}

static void formula_row(uint32_t query, const uint32_t *keys, uint32_t n,
                        struct layer_rows *rows_out, uint32_t row)
{
    for (uint32_t h = 0; h < LAYER_HEADS; h++)
        formula(query, keys, n, h, rows_out->output[row] + h * LAYER_DIM, &rows_out->lse[row][h]);
}

static const uint32_t *counting(void)
{
    static uint32_t numbers[LAYER_ROWS_MAX];
    for (uint32_t i = 0; i < LAYER_ROWS_MAX; i++)
        numbers[i] = i;
    return numbers;
}

Test(equality, causal_attention_is_the_formula)
{
    for (uint32_t i = 0; i < LEN; i++)
        formula_row(i, counting(), i + 1, &expected, i);
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){0}, &CHUNKED, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
    }
}

Test(equality, padded_is_packed)
{
    struct attention_config config = {.rope = rope};
    struct layer_run padded = CHUNKED;
    padded.padded_query_len = 19;
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, config, &CHUNKED, &expected);
        run_plain(list[k]->attention, config, &padded, &rows);
        cr_assert_arr_eq(&rows, &expected, sizeof rows);
    }
}

Test(equality, contiguous_is_paged)
{
    struct attention_config config = {.rope = rope};
    FOR_EACH_BACKEND(list, k)
    {
        struct layer layer = layer_open(list[k]->attention, config, true);
        layer_run(&layer, &CHUNKED, &rows);
        layer_close(&layer);
        run_plain(list[k]->attention, config, &CHUNKED, &expected);
        cr_assert_arr_eq(&rows, &expected, sizeof rows);
    }
}

/* Every path, and the choices of the generation phase. */
Test(equality, ways_to_compute_are_one_result)
{
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){.rope = rope}, &CHUNKED, &expected);
        for (enum attention_path path = PATH_UNFUSED; path <= PATH_FLASH; path++)
            for (enum attention_choice choice = CHOICE_ON; choice <= CHOICE_OFF; choice++) {
                struct attention_config config = {
                    .rope = rope, .path = path, .multi_block = choice, .grouped = choice};
                run_plain(list[k]->attention, config, &CHUNKED, &rows);
                layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
            }
    }
}

Test(equality, a_cyclic_cache_is_a_sliding_window)
{
    static const uint32_t windows[] = {1, 7, 16, 24, 33, 64};
    FOR_EACH_BACKEND(list, k)
    {
        for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
            struct attention_config config = {.rope = rope, .window = windows[i]};
            run_plain(list[k]->attention, config, &WHOLE, &expected);
            config.is_cyclic = true;
            run_plain(list[k]->attention, config, &WHOLE, &rows);
            layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, "a whole prompt");
            run_plain(list[k]->attention, config, &CHUNKED, &rows);
            layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, "chunks");
        }
    }
}

Test(equality, a_sliding_window_is_the_formula)
{
    for (uint32_t i = 0; i < LEN; i++)
        formula_row(i, counting() + (i < 10 ? 0 : i - 9), i < 10 ? i + 1 : 10, &expected, i);
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){.window = 10}, &CHUNKED, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
    }
}

/* StreamingLLM: a generated token sees what a short sequence of the tokens in sight would show it. */
static void check_streaming(const struct attention_backend *backend, bool is_cyclic,
                            const struct layer_run *run)
{
    enum { WINDOW = 20, SINKS = 3 };
    struct attention_config plain = {.rope = rope}, streaming = plain;
    streaming.window = WINDOW;
    streaming.sink_tokens = SINKS;
    streaming.is_cyclic = is_cyclic;
    run_plain(backend, plain, &WHOLE, &expected);
    run_plain(backend, streaming, run, &rows);
    layer_assert_near(&rows, 0, &expected, 0, run->prompt_len, NEAR, "a dense context");
    for (uint32_t query = run->prompt_len; query < LEN; query++) {
        uint32_t n = 0, tokens[WINDOW];
        for (uint32_t j = 0; j <= query; j++)
            if (j < SINKS || query - j < WINDOW - SINKS)
                tokens[n++] = j;
        run_plain(backend, plain, &(struct layer_run){.tokens = tokens, .len = n, .prompt_len = n},
                  &expected);
        layer_assert_near(&rows, query, &expected, n - 1, 1, NEAR, "tokens in sight");
    }
}

Test(equality, streaming_is_attention_over_the_tokens_in_sight)
{
    struct layer_run early = {.len = LEN, .prompt_len = 9};
    struct layer_run two_chunks = {.len = LEN, .prompt_len = 30, .chunk = 16};
    FOR_EACH_BACKEND(list, k)
    {
        check_streaming(list[k]->attention, false, &CHUNKED);
        check_streaming(list[k]->attention, true, &WHOLE);
        check_streaming(list[k]->attention, false, &early);
        check_streaming(list[k]->attention, true, &early);
        check_streaming(list[k]->attention, true, &two_chunks);
    }
}

static void check_bias(const struct attention_backend *backend, struct attention_bias bias,
                       float (*at)(uint32_t head, int distance))
{
    static float table[LAYER_HEADS][LEN][LEN];
    for (uint32_t h = 0; h < LAYER_HEADS; h++)
        for (int i = 0; i < LEN; i++)
            for (int j = 0; j < LEN; j++)
                table[h][i][j] = at(h, j - i);
    struct attention_config config = {.bias = bias};
    run_plain(backend, config, &CHUNKED, &rows);
    config.bias = (struct attention_bias){
        .table = &table[0][0][0], .n_queries = LEN, .n_keys = LEN};
    run_plain(backend, config, &CHUNKED, &expected);
    layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, backend->name);
}

static float alibi_at(uint32_t head, int distance)
{
    return 0.25f * (float)distance * exp2f(-2.0f * (float)(head + 1)); /* four heads */
}

static float buckets[LAYER_HEADS][8];

/* Eight buckets: 0 .. 3 exact, then 4 for 4 .. 5, 5 for 6 .. 9, 6 for 10 .. 15, 7 from 16 (up to 24). */
static float bucket_at(uint32_t head, int distance)
{
    int away = distance > 0 ? 0 : -distance;
    if (away < 4)
        return buckets[head][away];
    int far = 4 + (int)floor(log(away / 4.0) / log(24 / 4.0) * 4);
    return buckets[head][far < 7 ? far : 7];
}

Test(equality, position_biases_are_tables)
{
    for (uint32_t i = 0; i < LAYER_HEADS * 8; i++)
        buckets[i / 8][i % 8] = layer_q(99, i);
    FOR_EACH_BACKEND(list, k)
    {
        check_bias(list[k]->attention, (struct attention_bias){.alibi_scale = 0.25f}, alibi_at);
        check_bias(
            list[k]->attention,
            (struct attention_bias){.buckets = &buckets[0][0], .n_buckets = 8, .distance_max = 24},
            bucket_at);
    }
}

Test(equality, a_table_is_added_to_the_scores)
{
    static float table[LAYER_HEADS][LEN][LEN];
    FOR_EACH_BACKEND(list, k)
    {
        struct attention_config config = {
            .bias = {.table = &table[0][0][0], .n_queries = LEN, .n_keys = LEN}};
        memset(table, 0, sizeof table);
        table[1][50][7] = 300; /* one head of one query sees one key alone */
        run_plain(list[k]->attention, (struct attention_config){0}, &CHUNKED, &expected);
        formula(50, counting() + 7, 1, 1, expected.output[50] + LAYER_DIM, &expected.lse[50][1]);
        expected.lse[50][1] += 300;
        run_plain(list[k]->attention, config, &CHUNKED, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
    }
}

/* A causal mask given as an input over a bidirectional one; then one row for all queries. */
Test(equality, masks_given_are_masks_derived)
{
    static uint8_t shown[LEN][LEN];
    static float added[LEN][LEN];
    struct layer_run whole = {.len = LEN, .prompt_len = LEN};
    for (uint32_t i = 0; i < LEN * LEN; i++) {
        shown[i / LEN][i % LEN] = i % LEN <= i / LEN;
        added[i / LEN][i % LEN] = i % LEN <= i / LEN ? 0.5f : -INFINITY;
    }
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){0}, &whole, &expected);
        for (enum attention_mask_input input = MASK_INPUT_BOOL; input <= MASK_INPUT_FLOAT;
             input++) {
            struct attention_config config = {.mask = MASK_BIDIRECTIONAL, .mask_input = input};
            struct layer layer = layer_open(list[k]->attention, config, false);
            layer.mask = input == MASK_INPUT_BOOL ? (const void *)shown : (const void *)added;
            layer.mask_query_stride = LEN;
            layer_run(&layer, &whole, &rows);
            layer_close(&layer);
            for (uint32_t i = 0; input == MASK_INPUT_FLOAT && i < LEN * LAYER_HEADS; i++)
                rows.lse[i / LAYER_HEADS][i % LAYER_HEADS] -= 0.5f;
            layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
        }
    }
}

Test(equality, masks_upper_left_and_bidirectional_are_the_formula)
{
    FOR_EACH_BACKEND(list, k)
    {
        for (uint32_t i = 0; i < LEN; i++)
            formula_row(i, counting(), LEN, &expected, i);
        struct layer_run whole = {.len = LEN, .prompt_len = LEN};
        run_plain(list[k]->attention, (struct attention_config){.mask = MASK_BIDIRECTIONAL}, &whole,
                  &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, "bidirectional");
        for (uint32_t i = 0; i < LEN; i++)
            formula_row(i, counting(), i < PROMPT ? i % 16 + 1 : 1, &expected, i);
        run_plain(list[k]->attention, (struct attention_config){.mask = MASK_CAUSAL_UPPER_LEFT},
                  &CHUNKED, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, "upper left");
    }
}

/* No key: zero, not NaN, and -inf; with a sink the sink alone. */
Test(equality, a_row_that_sees_nothing_is_zero)
{
    static const uint8_t hidden[LEN];
    static const float sinks[LAYER_HEADS] = {0.5f, -1, 2, 0};
    FOR_EACH_BACKEND(list, k)
    {
        for (int has_sinks = 0; has_sinks < 2; has_sinks++) {
            struct attention_config config = {.mask_input = MASK_INPUT_BOOL,
                                              .sinks = has_sinks ? sinks : NULL};
            struct layer layer = layer_open(list[k]->attention, config, false);
            layer.mask = hidden;
            layer_run(&layer, &WHOLE, &rows);
            layer_close(&layer);
            for (uint32_t i = 0; i < LEN * WIDTH; i++)
                cr_assert_eq(rows.output[i / WIDTH][i % WIDTH], 0, "%s", list[k]->name);
            for (uint32_t i = 0; i < LEN * LAYER_HEADS; i++) {
                float want = has_sinks ? sinks[i % LAYER_HEADS] : -INFINITY;
                float lse = rows.lse[i / LAYER_HEADS][i % LAYER_HEADS];
                cr_assert(lse == want || fabsf(lse - want) < 1e-5f, "%s", list[k]->name);
            }
        }
    }
}

Test(equality, learned_sinks_take_their_part_of_the_denominator)
{
    static const float sinks[LAYER_HEADS] = {0.5f, -1, 2, 40};
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){0}, &CHUNKED, &expected);
        for (uint32_t i = 0; i < LEN * LAYER_HEADS; i++) {
            float *lse = &expected.lse[i / LAYER_HEADS][i % LAYER_HEADS];
            double with = log(exp((double)*lse) + exp((double)sinks[i % LAYER_HEADS]));
            float *output = expected.output[i / LAYER_HEADS] + i % LAYER_HEADS * LAYER_DIM;
            for (uint32_t c = 0; c < LAYER_DIM; c++)
                output[c] *= (float)exp((double)*lse - with);
            *lse = (float)with;
        }
        run_plain(list[k]->attention, (struct attention_config){.sinks = sinks}, &CHUNKED, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
    }
}

/* A cap far over every score changes nothing; one far below makes all scores +-cap. */
Test(equality, a_soft_cap_bends_the_scores)
{
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){0}, &CHUNKED, &expected);
        run_plain(list[k]->attention, (struct attention_config){.soft_cap = 1e5f}, &CHUNKED, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
        struct attention_config capped = {.scale = 1e6f, .soft_cap = 0.75f};
        run_plain(list[k]->attention, capped, &CHUNKED, &rows);
        for (uint32_t h = 0; h < LAYER_HEADS; h++) {
            double dot = 0, expected_lse = 0;
            for (uint32_t j = 0; j < LEN; j++) {
                dot = 0;
                for (uint32_t i = 0; i < LAYER_DIM; i++)
                    dot += (double)layer_q(LEN - 1, h * LAYER_DIM + i) *
                           (double)layer_k(j, h / 2 * LAYER_DIM + i);
                expected_lse += exp(dot > 0 ? 0.75 : -0.75);
            }
            cr_assert_float_eq(rows.lse[LEN - 1][h], (float)log(expected_lse), 1e-4f);
        }
    }
}
