/* what one step asks for in an unusual way is the same as plain sequences: beams, draft tokens, an
 * encoder's keys, parts of a sequence, rounded inputs, caches and outputs. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/layer.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define NEAR 1e-5

enum {
    LEN = 60,
    PROMPT = 48,
    WIDTH = LAYER_HEADS * LAYER_DIM,
    KV_WIDTH = LAYER_KV_HEADS * LAYER_DIM
};

static const struct layer_run CHUNKED = {.len = LEN, .prompt_len = PROMPT, .chunk = 16};
static struct layer_rows rows, expected;
static struct rope *rope;

static void make_rope(void)
{
    struct rope_config config = {.head_dim = LAYER_DIM, .positions_max = 256, .theta = 100};
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
}

static void free_rope(void)
{
    rope_destroy(rope);
}

TestSuite(equality_step, .init = make_rope, .fini = free_rope, .description = ONE_THREAD);

#define FOR_EACH_BACKEND(list, k)                                                                  \
    const struct kernels *list[KERNELS_MAX];                                                       \
    uint32_t n_##list = attention_list(list);                                                      \
    for (uint32_t k = 0; k < n_##list; k++)

/* The rows of a prompt of these tokens. */
static void run_tokens(const struct attention_backend *backend, struct attention_config config,
                       const uint32_t *tokens, uint32_t len, const uint32_t *positions,
                       struct layer_rows *rows_out)
{
    struct layer layer = layer_open(backend, config, false);
    struct layer_run run = {
        .tokens = tokens, .len = len, .prompt_len = len, .positions = positions};
    layer_run(&layer, &run, rows_out);
    layer_close(&layer);
}

static void run_plain(const struct attention_backend *backend, struct attention_config config,
                      struct layer_rows *rows_out)
{
    struct layer layer = layer_open(backend, config, false);
    layer_run(&layer, &CHUNKED, rows_out);
    layer_close(&layer);
}

/* ---- beams ---- */

enum { BEAMS = 3, BEAM_PROMPT = 12, BEAM_STEPS = 6, BEAM_LEN = BEAM_PROMPT + BEAM_STEPS };

/* histories[beam]: its tokens; sources: whose blocks hold them. Then every beam goes on from another:
 * its row of sources is that one's, with the parent's own newest token. */
struct beams {
    uint32_t histories[BEAMS][BEAM_LEN], sources[BEAMS][BEAM_LEN];
    uint32_t block_ids[BEAMS][4];
};

static void fork_beams(struct beams *beams, uint32_t kv_len)
{
    static const uint32_t parents[BEAMS] = {1, 1, 0};
    struct beams before = *beams;
    for (uint32_t b = 0; b < BEAMS; b++) {
        memcpy(beams->histories[b], before.histories[parents[b]], sizeof beams->histories[b]);
        memcpy(beams->sources[b], before.sources[parents[b]], sizeof beams->sources[b]);
        if (kv_len > BEAM_PROMPT)
            beams->sources[b][kv_len - 1] = parents[b];
        beams->histories[b][kv_len] = 100 + kv_len * BEAMS + b;
        beams->sources[b][kv_len] = BEAMS - 1 - b; /* of the newest token: not to be believed */
    }
}

static void check_beams(const struct attention_backend *backend, struct attention_config config,
                        bool is_contiguous, uint32_t padded_query_len)
{
    static struct layer_rows step_rows;
    config.n_beams_max = BEAMS;
    struct layer layer = layer_open(backend, config, is_contiguous);
    struct beams beams = {.block_ids = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}};
    for (uint32_t b = 0; b < BEAMS; b++)
        for (uint32_t i = 0; i < BEAM_PROMPT; i++)
            beams.histories[b][i] = i;
    struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                          .query_len = BEAM_PROMPT,
                                          .kv_len = BEAM_PROMPT,
                                          .prompt_len = BEAM_PROMPT,
                                          .block_ids = beams.block_ids[0],
                                          .n_blocks = 4};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    layer_step(&layer, &step, beams.histories[0], NULL, &step_rows);
    step.padded_query_len = padded_query_len;
    for (uint32_t kv_len = BEAM_PROMPT; kv_len < BEAM_LEN; kv_len++) {
        uint32_t newest[BEAMS];
        fork_beams(&beams, kv_len);
        for (uint32_t b = 0; b < BEAMS; b++)
            newest[b] = beams.histories[b][kv_len];
        sequence.phase = PHASE_GENERATION;
        sequence.query_len = 1;
        sequence.kv_len = kv_len + 1;
        sequence.n_beams = BEAMS;
        sequence.cache_source = beams.sources[0];
        sequence.cache_source_stride = BEAM_LEN;
        layer_step(&layer, &step, newest, NULL, &step_rows);
        for (uint32_t b = 0; b < BEAMS; b++) {
            run_tokens(backend, config, beams.histories[b], kv_len + 1, NULL, &expected);
            layer_assert_near(&step_rows, b, &expected, kv_len, 1, NEAR, "a beam");
        }
    }
    layer_close(&layer);
}

Test(equality_step, beams_are_sequences_of_their_own)
{
    struct attention_config config = {.rope = rope};
    struct attention_config windowed = {.rope = rope, .window = 5};
    FOR_EACH_BACKEND(list, k)
    {
        check_beams(list[k]->attention, config, false, 0);
        check_beams(list[k]->attention, config, true, 0);
        check_beams(list[k]->attention, config, false, 4);
        check_beams(list[k]->attention, windowed, false, 0);
    }
}

/* ---- draft tokens ---- */

enum { DRAFTS = 5, DRAFT_PAST = 21 };

/* Runs DRAFT_PAST tokens, then the drafts in one generation step. */
static void run_drafts(const struct attention_backend *backend, struct attention_config config,
                       const uint32_t *tokens, const uint32_t *positions, const uint64_t *mask,
                       struct layer_rows *rows_out)
{
    static struct layer_rows prompt_rows;
    uint32_t block_ids[] = {7, 5, 3, 1};
    config.n_draft_max = DRAFTS;
    struct layer layer = layer_open(backend, config, false);
    struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                          .query_len = DRAFT_PAST,
                                          .kv_len = DRAFT_PAST,
                                          .prompt_len = DRAFT_PAST,
                                          .block_ids = block_ids,
                                          .n_blocks = 4};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    layer_step(&layer, &step, tokens, NULL, &prompt_rows);
    sequence.phase = PHASE_GENERATION;
    sequence.query_len = DRAFTS;
    sequence.kv_len = DRAFT_PAST + DRAFTS;
    sequence.positions = positions;
    sequence.draft_mask = mask;
    layer_step(&layer, &step, tokens + DRAFT_PAST, NULL, rows_out);
    layer_close(&layer);
}

Test(equality_step, draft_tokens_in_a_row_are_tokens_one_by_one)
{
    uint32_t tokens[DRAFT_PAST + DRAFTS];
    for (uint32_t i = 0; i < DRAFT_PAST + DRAFTS; i++)
        tokens[i] = i;
    FOR_EACH_BACKEND(list, k)
    {
        for (uint32_t window = 0; window <= 6; window += 3) {
            struct attention_config config = {.rope = rope, .window = window};
            run_drafts(list[k]->attention, config, tokens, NULL, NULL, &rows);
            run_tokens(list[k]->attention, config, tokens, DRAFT_PAST + DRAFTS, NULL, &expected);
            layer_assert_near(&rows, 0, &expected, DRAFT_PAST, DRAFTS, NEAR, list[k]->name);
        }
    }
}

/* 0 -> 1 -> 2 and 0 -> 3 -> 4: each row is the last of its path. */
Test(equality_step, a_tree_of_draft_tokens_is_its_paths)
{
    static const uint64_t mask[DRAFTS] = {0x01, 0x03, 0x07, 0x09, 0x19};
    static const uint32_t depths[DRAFTS] = {0, 1, 2, 1, 2};
    uint32_t tokens[DRAFT_PAST + DRAFTS], positions[DRAFTS];
    for (uint32_t i = 0; i < DRAFT_PAST + DRAFTS; i++)
        tokens[i] = i;
    for (uint32_t i = 0; i < DRAFTS; i++)
        positions[i] = DRAFT_PAST + depths[i];
    FOR_EACH_BACKEND(list, k)
    {
        struct attention_config config = {.rope = rope};
        run_drafts(list[k]->attention, config, tokens, positions, mask, &rows);
        for (uint32_t i = 0; i < DRAFTS; i++) {
            uint32_t path[DRAFT_PAST + DRAFTS], n = DRAFT_PAST;
            memcpy(path, tokens, sizeof path);
            for (uint32_t j = 0; j < DRAFTS; j++)
                if (mask[i] >> j & 1)
                    path[n++] = tokens[DRAFT_PAST + j];
            run_tokens(list[k]->attention, config, path, n, NULL, &expected);
            layer_assert_near(&rows, i, &expected, n - 1, 1, NEAR, list[k]->name);
        }
    }
}

Test(equality_step, positions_given_move_the_rotation_alone)
{
    uint32_t positions[LEN];
    for (uint32_t i = 0; i < LEN; i++)
        positions[i] = i + 70; /* scores know differences only */
    struct layer_run moved = CHUNKED;
    moved.positions = positions;
    FOR_EACH_BACKEND(list, k)
    {
        struct layer layer = layer_open(list[k]->attention, (struct attention_config){.rope = rope},
                                        false);
        layer_run(&layer, &moved, &rows);
        layer_close(&layer);
        run_plain(list[k]->attention, (struct attention_config){.rope = rope}, &expected);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
    }
}

/* ---- keys that are not the queries' ---- */

/* A decoder's tokens see all of the encoder's, which are the first of one bidirectional sequence. The
 * mask hides the decoder's from it. */
static void check_cross(const struct attention_backend *backend, uint32_t padded_new_len)
{
    enum { ENCODER = 19, DECODER = 7, BOTH = ENCODER + DECODER };
    static uint8_t shown[BOTH][BOTH];
    static struct layer_rows step_rows;
    uint32_t tokens[BOTH], block_ids[] = {9, 4, 6, 1};
    for (uint32_t i = 0; i < BOTH; i++) {
        tokens[i] = i;
        memset(shown[i], 1, ENCODER);
    }
    struct attention_config whole = {.mask = MASK_BIDIRECTIONAL, .mask_input = MASK_INPUT_BOOL};
    struct layer layer = layer_open(backend, whole, false);
    layer.mask = shown;
    layer.mask_query_stride = BOTH;
    layer_run(&layer, &(struct layer_run){.len = BOTH, .prompt_len = BOTH}, &expected);
    layer_close(&layer);

    struct attention_config cross = {.mask = MASK_BIDIRECTIONAL, .keys = KEYS_CROSS};
    layer = layer_open(backend, cross, false);
    struct attention_sequence sequences[2] = {{.phase = PHASE_CONTEXT,
                                               .query_len = 4,
                                               .kv_len = ENCODER,
                                               .prompt_len = 4,
                                               .block_ids = block_ids,
                                               .n_blocks = 4,
                                               .new_len = ENCODER}};
    struct attention_step step = {
        .sequences = sequences, .n_sequences = 1, .padded_new_len = padded_new_len};
    layer_step(&layer, &step, tokens + ENCODER, tokens, &step_rows);
    layer_assert_near(&step_rows, 0, &expected, ENCODER, 4, NEAR, "a decoder's prompt");
    for (uint32_t i = 4; i < DECODER; i++) {
        sequences[0].phase = PHASE_GENERATION;
        sequences[0].query_len = 1;
        sequences[0].query_index = i;
        sequences[0].new_len = 0;
        layer_step(&layer, &step, tokens + ENCODER + i, tokens, &step_rows);
        layer_assert_near(&step_rows, 0, &expected, ENCODER + i, 1, NEAR, "a decoder's token");
    }
    layer_close(&layer);
}

Test(equality_step, cross_attention_sees_the_encoders_tokens)
{
    FOR_EACH_BACKEND(list, k)
    {
        check_cross(list[k]->attention, 0);
        check_cross(list[k]->attention, 24);
    }
}

/* Adds a rank's part to what the ranks before it gave. */
static void merge(const struct layer_rows *part, uint32_t n, struct layer_rows *total)
{
    for (uint32_t i = 0; i < n * LAYER_HEADS; i++) {
        uint32_t row = i / LAYER_HEADS, head = i % LAYER_HEADS;
        double a = (double)total->lse[row][head], b = (double)part->lse[row][head];
        double lse = fmax(a, b) + log(exp(a - fmax(a, b)) + exp(b - fmax(a, b)));
        for (uint32_t c = head * LAYER_DIM; c < (head + 1) * LAYER_DIM; c++)
            total->output[row][c] = (float)(exp(a - lse) * (double)total->output[row][c] +
                                            exp(b - lse) * (double)part->output[row][c]);
        total->lse[row][head] = (float)lse;
    }
}

/* All queries of a prompt against one rank's keys first .. end - 1. */
static void run_shard(const struct attention_backend *backend, struct attention_config config,
                      uint32_t first, uint32_t end, struct layer_rows *rows_out)
{
    uint32_t tokens[LEN], block_ids[LAYER_BLOCKS];
    for (uint32_t i = 0; i < LEN; i++)
        tokens[i] = i;
    for (uint32_t i = 0; i < LAYER_BLOCKS; i++)
        block_ids[i] = i;
    config.keys = KEYS_SHARD;
    struct layer layer = layer_open(backend, config, false);
    struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                          .query_len = LEN,
                                          .kv_len = end - first,
                                          .prompt_len = LEN,
                                          .block_ids = block_ids,
                                          .n_blocks = LAYER_BLOCKS,
                                          .new_len = end - first,
                                          .key_index = first};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    layer_step(&layer, &step, tokens, tokens + first, rows_out);
    layer_close(&layer);
}

Test(equality_step, parts_of_a_sequence_merge_into_the_whole)
{
    static const float slopes_and_sinks[LAYER_HEADS] = {1, 0, -1, 2};
    FOR_EACH_BACKEND(list, k)
    {
        for (int windowed = 0; windowed < 2; windowed++) {
            static struct layer_rows part;
            struct attention_config config = {
                .rope = rope, .window = windowed ? 9 : 0, .bias = {.alibi_scale = 1}};
            struct attention_config first = config;
            first.sinks = slopes_and_sinks; /* of one rank alone */
            run_shard(list[k]->attention, first, 0, 17, &rows);
            run_shard(list[k]->attention, config, 17, 40, &part);
            merge(&part, LEN, &rows);
            run_shard(list[k]->attention, config, 40, LEN, &part);
            merge(&part, LEN, &rows);
            run_plain(list[k]->attention, first, &expected);
            layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
        }
    }
}

/* ---- rounding ---- */

/* An 8-bit cache is a float32 cache of rounded K and V. */
Test(equality_step, an_8_bit_cache_holds_rounded_keys)
{
    FOR_EACH_BACKEND(list, k)
    {
        for (enum dtype cache = DTYPE_INT8; cache <= DTYPE_E4M3; cache++) {
            struct attention_config config = {.window = 30};
            struct layer layer = layer_open(list[k]->attention, config, false);
            layer.kv_rounding = cache;
            layer.k_rounding_scale = cache == DTYPE_INT8 ? 0.02f : 0.005f; /* some saturate */
            layer.v_rounding_scale = cache == DTYPE_INT8 ? 0.03f : 0.01f;
            layer_run(&layer, &CHUNKED, &expected);
            layer_close(&layer);
            config.cache = cache;
            config.k_scale = layer.k_rounding_scale;
            config.v_scale = layer.v_rounding_scale;
            run_plain(list[k]->attention, config, &rows);
            layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
        }
    }
}

Test(equality_step, sixteen_bit_inputs_are_rounded_inputs)
{
    FOR_EACH_BACKEND(list, k)
    {
        for (enum dtype compute = DTYPE_BF16; compute <= DTYPE_F16; compute++) {
            struct layer layer = layer_open(list[k]->attention,
                                            (struct attention_config){.rope = rope}, false);
            layer.rounding = compute;
            layer_run(&layer, &CHUNKED, &expected);
            layer_close(&layer);
            struct attention_config config = {.rope = rope, .compute = compute};
            run_plain(list[k]->attention, config, &rows);
            layer_assert_near(&rows, 0, &expected, 0, LEN, compute == DTYPE_BF16 ? 6e-3 : 1e-3,
                              list[k]->name);
        }
    }
}

Test(equality_step, an_8_bit_output_is_the_output_rounded)
{
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, (struct attention_config){0}, &expected);
        run_plain(list[k]->attention, (struct attention_config){.output_scale = 0.01f}, &rows);
        for (uint32_t i = 0; i < LEN * WIDTH; i++) {
            double want = (double)expected.output[i / WIDTH][i % WIDTH];
            double got = (double)rows.output[i / WIDTH][i % WIDTH];
            /* half a step of 3 bits, or of the smallest numbers */
            cr_assert_leq(fabs(got - want), fabs(want) / 16 + 0.01 / 1024 + 1e-6);
        }
    }
}

/* E4M3 has 3 bits: 1/16 of a product's factor; errors of many keys average. Generation is exact. */
Test(equality_step, fp8_math_stays_near_and_concerns_the_context_alone)
{
    FOR_EACH_BACKEND(list, k)
    {
        struct attention_config fp8 = {
            .math = MATH_FP8, .q_scale = 0.01f, .k_scale = 0.01f, .v_scale = 0.01f};
        run_plain(list[k]->attention, (struct attention_config){0}, &expected);
        run_plain(list[k]->attention, fp8, &rows);
        layer_assert_near(&rows, 0, &expected, 0, PROMPT, 0.1, list[k]->name);
        cr_assert_neq(memcmp(rows.output, expected.output, PROMPT * sizeof rows.output[0]), 0);
        cr_assert_arr_eq(rows.output[PROMPT], expected.output[PROMPT],
                         (LEN - PROMPT) * sizeof rows.output[0]);
    }
}

/* K is turned when it is read: what comes of it is no E4M3 any more, though the cache's elements are. */
Test(equality_step, fp8_math_rounds_k_again_behind_its_turn)
{
    const struct attention_config config = {.math = MATH_FP8,
                                            .cache = DTYPE_E4M3,
                                            .rope = rope,
                                            .window = 30,
                                            .sink_tokens = 4,
                                            .q_scale = 0.01f,
                                            .k_scale = 0.01f,
                                            .v_scale = 0.01f};
    FOR_EACH_BACKEND(list, k)
    {
        run_plain(list[k]->attention, config, k == 0 ? &expected : &rows);
        if (k > 0)
            layer_assert_near(&rows, 0, &expected, 0, LEN, 2e-3, list[k]->name);
    }
}

static void check_half_math(const struct kernels *kernels, enum attention_math math, double near)
{
    for (enum dtype cache = DTYPE_F32; cache <= DTYPE_F16; cache++) {
        struct attention_config config = {.rope = rope, .cache = cache};
        run_plain(kernels->attention, config, &expected);
        config.math = math;
        run_plain(kernels->attention, config, &rows);
        layer_assert_near(&rows, 0, &expected, 0, PROMPT, near, kernels->name);
        cr_assert_neq(memcmp(rows.output, expected.output, PROMPT * sizeof rows.output[0]), 0);
        cr_assert_arr_eq(rows.output[PROMPT], expected.output[PROMPT],
                         (LEN - PROMPT) * sizeof rows.output[0]);
    }
}

/* BF16 has 8 bits, FP16 11: in the cache they are rounded already. */
Test(equality_step, half_maths_stay_near_and_concern_the_context_alone)
{
    FOR_EACH_BACKEND(list, k)
    {
        bool adds_fp16 = attention_own_math(list[k]->name) == MATH_FP16;
        check_half_math(list[k], MATH_BF16, 6e-3);
        check_half_math(list[k], MATH_FP16, adds_fp16 ? 3e-3 : 1e-3);
    }
}

/* Of a whole prompt, in a cache of a dtype. */
static void run_prompt(const struct kernels *kernels, enum attention_math math, enum dtype cache,
                       struct layer_rows *rows_out)
{
    struct attention_config config = {.math = math, .cache = cache};
    struct layer layer = layer_open(kernels->attention, config, false);
    layer_run(&layer, &(struct layer_run){.len = LEN, .prompt_len = LEN}, rows_out);
    layer_close(&layer);
}

/* K and V of a cache of that type go into the products as they are: the same as a float32 cache of
 * them. */
Test(equality_step, half_maths_round_keys_and_values_as_a_cache_does)
{
    FOR_EACH_BACKEND(list, k)
    {
        for (enum attention_math math = MATH_BF16; math <= MATH_FP16; math++) {
            run_prompt(list[k], math, DTYPE_F32, &expected);
            run_prompt(list[k], math, math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16, &rows);
            cr_assert_arr_eq(rows.output, expected.output, LEN * sizeof rows.output[0], "%s",
                             list[k]->name);
        }
    }
}

Test(equality_step, int8_math_stays_near)
{
    FOR_EACH_BACKEND(list, k)
    {
        for (enum attention_math math = MATH_INT8; math <= MATH_INT8_PV_FP8; math++) {
            run_plain(list[k]->attention, (struct attention_config){.rope = rope}, &expected);
            run_plain(list[k]->attention, (struct attention_config){.rope = rope, .math = math},
                      &rows);
            layer_assert_near(&rows, 0, &expected, 0, LEN, math == MATH_INT8 ? 0.02 : 0.06,
                              list[k]->name);
        }
    }
}

Test(equality_step, a_bias_of_the_projection_is_added_first)
{
    static float bias[WIDTH + 2 * KV_WIDTH];
    for (uint32_t i = 0; i < WIDTH + 2 * KV_WIDTH; i++)
        bias[i] = layer_q(77, i);
    FOR_EACH_BACKEND(list, k)
    {
        struct attention_config config = {.rope = rope};
        struct layer layer = layer_open(list[k]->attention, config, false);
        layer.bias = bias;
        layer_run(&layer, &CHUNKED, &expected);
        layer_close(&layer);
        config.qkv_bias = bias;
        run_plain(list[k]->attention, config, &rows);
        layer_assert_near(&rows, 0, &expected, 0, LEN, NEAR, list[k]->name);
    }
}

/* Sequences of both phases in one static or ordinary step; a lse that nobody wants. */
Test(equality_step, a_static_step_is_an_ordinary_one)
{
    static struct layer_rows step_rows;
    static const uint32_t blocks[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}};
    FOR_EACH_BACKEND(list, k)
    {
        struct attention_config config = {.rope = rope};
        struct layer layer = layer_open(list[k]->attention, config, false);
        uint32_t tokens[LEN];
        for (uint32_t i = 0; i < LEN; i++)
            tokens[i] = i;
        struct attention_sequence sequences[2];
        for (uint32_t s = 0; s < 2; s++)
            sequences[s] = (struct attention_sequence){.phase = PHASE_CONTEXT,
                                                       .query_len = 20,
                                                       .kv_len = 20,
                                                       .prompt_len = 20,
                                                       .block_ids = blocks[s],
                                                       .n_blocks = 8};
        struct attention_step step = {.sequences = sequences, .n_sequences = 2};
        layer_step(&layer, &step, tokens, NULL, &step_rows); /* the second one: tokens 20 .. 39 */
        cr_assert_eq(list[k]->attention->metadata_make_static(layer.metadata, 2, 1, NULL),
                     STATUS_OK);
        layer.skips_lse = true;
        for (uint32_t i = 20; i < 24; i++) {
            for (uint32_t s = 0; s < 2; s++) {
                sequences[s].phase = PHASE_GENERATION;
                sequences[s].query_len = 1;
                sequences[s].kv_len = i + 1;
            }
            layer_step(&layer, &step, (uint32_t[]){i, 40 + i}, NULL, &step_rows);
            run_tokens(list[k]->attention, config, tokens, i + 1, NULL, &expected);
            cr_assert_arr_eq(step_rows.output[0], expected.output[i], sizeof expected.output[0]);
        }
        layer_close(&layer);
    }
}
