/* Bits of attention on the harness depend on a row's keys alone: cases that are not of the table, in other blocks, chunks and
 * batches, by other kernels and with other splits, and near the reference. */
#include "kernels/cuda/attention.h"
#include "kernels/reference/attention.h"
#include "tests/simt/cases/table.h"

#include <criterion/criterion.h>

/* One sequence of so many tokens, the last two of them generated. */
static struct attention_case plain_case(uint32_t len, uint32_t head_dim, uint32_t window)
{
    return (struct attention_case){
        .seed = 5,
        .n_heads = 2,
        .n_kv_heads = 1,
        .head_dim = head_dim,
        .wants_lse = true,
        .n_layers = 1,
        .n_windows = 1,
        .windows = {window},
        .n_beams_max = 1,
        .n_draft_max = 1,
        .block_tokens = 8,
        .n_generated = 2,
        .n_sequences = 1,
        .sequences = {{.id = 1, .prompt_len = len - 2, .len = len, .n_beams = 1}},
    };
}

/* Of a case near the reference; finish it. */
static struct case_result run_plain(const struct attention_case *c, struct case_data *data_out,
                                    const struct attention_backend *backend, uint32_t schedule)
{
    const struct case_options options = {.backend = backend, .only = CASE_ALL};
    const struct case_options oracle = {
        .backend = &reference_attention, .only = CASE_ALL, .is_oracle = true};
    struct table table = {.name = "plain", .schedule = schedule};
    struct error error = {""};
    cr_assert(case_data_init(c, data_out, &error), "%s", error.text);
    struct case_result expected, got = table_run(data_out, &options, schedule);
    case_run(data_out, &oracle, &expected);
    cr_assert_str_empty(got.problem, "%s", got.problem);
    table_compare(&table, data_out, &got, &expected);
    cr_assert_eq(table.n_failed, 0);
    case_result_finish(&expected);
    return got;
}

static bool is_half(const struct attention_case *c)
{
    return (c->math == MATH_BF16 || c->math == MATH_FP16) &&
           (c->head_dim == 64 || c->head_dim == 128);
}

/* Whether generated rows are those of attention_grouped. */
static bool takes_grouped(const struct attention_case *c)
{
    const bool is_fine = c->compute == DTYPE_F32 ||
                         (c->compute == DTYPE_F16 && c->math == MATH_BF16);
    return is_half(c) && !is_fine;
}

/* What the last run launched is what the case asks for. */
static void assert_launched(const struct attention_case *c)
{
    const bool is_narrow = c->cache == DTYPE_INT8 || c->cache == DTYPE_E4M3;
    const bool is_biased = c->soft_cap != 0 || c->alibi_scale != 0;
    const bool is_whole = c->path == PATH_SHORT || c->path == PATH_UNFUSED;
    cr_assert(table_launched_as_named(c), "%u short, %u unfused", launched.n_short,
              launched.n_unfused);
    cr_assert_eq(launched.n_grouped != 0, takes_grouped(c), "%u", launched.n_grouped);
    cr_assert_eq(launched.n_flash != 0, is_half(c) && !is_narrow && !is_biased && !is_whole, "%u",
                 launched.n_flash);
}

/* Whether a back end makes of a case what was made of another. */
static bool gives(const struct attention_case *c, const struct attention_backend *backend,
                  uint32_t schedule, const struct case_result *expected)
{
    struct case_data data;
    struct case_result got = run_plain(c, &data, backend, schedule);
    const bool is_same = case_same_bits(&data, 0, &got, expected);
    case_result_finish(&got);
    case_data_finish(&data);
    return is_same;
}

static void assert_gives(const struct attention_case *c, const struct case_result *expected,
                         const char *what)
{
    cr_assert(gives(c, &cuda_attention, 3, expected), "%s, window %u, heads of %u", what,
              c->windows[0], c->head_dim);
    assert_launched(c);
}

/* The first sequence has the same bits beside another of so many tokens, the last n_generated of them generated, and alone. */
static void check_beside(const struct attention_case *c, uint32_t len, uint32_t n_generated,
                         const struct attention_backend *backend, uint32_t schedule)
{
    struct attention_case both = *c;
    both.n_sequences = 2;
    both.sequences[1] = (struct case_sequence){
        .id = 2, .prompt_len = len - n_generated, .len = len, .n_beams = 1};
    struct case_data data;
    const struct case_options alone = {.backend = backend, .only = 0};
    struct case_result all = run_plain(&both, &data, backend, schedule);
    struct case_result one = table_run(&data, &alone, (schedule + 1) % SCHEDULES);
    cr_assert(case_same_bits(&data, 0, &all, &one), "a sequence beside it");
    case_result_finish(&all);
    case_result_finish(&one);
    case_data_finish(&data);
}

/* The same tokens in other blocks, chunks and batches, and by another kernel if there is one. */
static void check_context(const struct attention_case *whole, const enum attention_path *other_path)
{
    struct case_data data;
    struct case_result got = run_plain(whole, &data, &cuda_attention, 0);
    assert_launched(whole);
    struct attention_case other = *whole;
    other.block_tokens = 64;
    assert_gives(&other, &got, "blocks of 64");
    other = *whole;
    other.chunk_blocks = 3;
    assert_gives(&other, &got, "chunks of 24");
    other = *whole;
    other.is_contiguous = true;
    assert_gives(&other, &got, "a contiguous cache");
    other = *whole;
    if (other_path) {
        other.path = *other_path;
        assert_gives(&other, &got, "the other path");
    }
    case_result_finish(&got);
    case_data_finish(&data);
    check_beside(whole, 40, 1, &cuda_attention, 0);
}

Test(simt_cases, bits_of_the_flash_kernel_depend_on_the_keys_alone)
{
    static const uint32_t windows[] = {0, 70};
    for (uint32_t i = 0; i < 4; i++) {
        struct attention_case c = plain_case(152, i % 2 ? 128 : 64, windows[i / 2]);
        c.math = i == 0 || i == 3 ? MATH_BF16 : MATH_FP16;
        c.compute = c.cache = c.math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
        c.has_sinks = i == 1;
        check_context(&c, NULL);
    }
}

/* The first of both is computed by the kernel for sm_90, which no other architecture takes. */
static void check_architecture(const struct attention_case *c, uint32_t schedule)
{
    struct case_data data, of_80;
    struct case_result got = run_plain(c, &data, &cuda_attention, schedule);
    assert_launched(c);
    cr_assert_gt(launched.n_flash_sm90, 0);
    table_architecture = 80;
    struct case_result expected = run_plain(c, &of_80, &cuda_attention, 0);
    table_architecture = 0;
    assert_launched(c);
    cr_assert_eq(launched.n_flash_sm90, 0);
    cr_assert(case_same_bits(&data, 0, &got, &expected), "%u heads, window %u, blocks of %u",
              c->n_heads, c->windows[0], c->block_tokens);
    case_result_finish(&got);
    case_result_finish(&expected);
    case_data_finish(&data);
    case_data_finish(&of_80);
}

/* Groups with an odd head, tiles with few rows, in all of the ring and more than once around it. */
Test(simt_cases, bits_of_the_flash_kernel_for_sm90_are_those_of_the_other)
{
    static const struct sm90_case {
        uint32_t len, n_heads, n_kv_heads, window, block_tokens, chunk_blocks;
        enum dtype compute;
        bool has_sinks;
    } cases[] = {
        {300, 2, 1, 0, 8, 0, DTYPE_BF16, false},   {66, 3, 1, 0, 16, 0, DTYPE_F32, true},
        {200, 6, 2, 70, 64, 0, DTYPE_BF16, false}, {331, 4, 2, 130, 128, 1, DTYPE_F32, true},
        {420, 2, 1, 0, 32, 2, DTYPE_BF16, true},   {3, 2, 1, 0, 8, 0, DTYPE_F32, false},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_case c = plain_case(cases[i].len, 128, cases[i].window);
        c.math = MATH_BF16;
        c.compute = cases[i].compute;
        c.cache = DTYPE_BF16;
        c.n_heads = cases[i].n_heads;
        c.n_kv_heads = cases[i].n_kv_heads;
        c.block_tokens = cases[i].block_tokens;
        c.chunk_blocks = cases[i].chunk_blocks;
        c.has_sinks = cases[i].has_sinks;
        check_architecture(&c, i % SCHEDULES);
    }
    struct attention_case alone = plain_case(70, 128, 0);
    struct case_data data;
    alone.math = MATH_BF16;
    alone.compute = alone.cache = DTYPE_BF16;
    alone.n_heads = 1;
    struct case_result got = run_plain(&alone, &data, &cuda_attention, 1);
    assert_launched(&alone);
    cr_assert_eq(launched.n_flash_sm90, 0, "keys of one head");
    case_result_finish(&got);
    case_data_finish(&data);
}

/* Rows of Q, K and V four elements at a time or, where between them are gaps, one by one. */
Test(simt_cases, bits_do_not_depend_on_how_wide_rows_are_read)
{
    static const struct wide_case {
        enum attention_math math;
        enum dtype cache;
        uint32_t n_heads, n_kv_heads, theta;
        bool is_interleaved, has_norm, has_bias, is_cyclic;
    } cases[] = {
        {MATH_BF16, DTYPE_BF16, 6, 2, 10000, false, true, false, false},
        {MATH_BF16, DTYPE_BF16, 2, 1, 100, true, false, true, true},
        {MATH_COMPUTE, DTYPE_INT8, 5, 1, 100, false, true, true, false},
        {MATH_FP16, DTYPE_F16, 3, 3, 0, false, true, true, false},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_case wide = plain_case(70, 128, cases[i].is_cyclic ? 40 : 0);
        wide.math = cases[i].math;
        wide.compute = DTYPE_BF16;
        wide.cache = cases[i].cache;
        wide.n_heads = cases[i].n_heads;
        wide.n_kv_heads = cases[i].n_kv_heads;
        wide.rope.theta = cases[i].theta;
        wide.rope.is_interleaved = cases[i].is_interleaved;
        wide.rope.positions_max = 4096;
        wide.rope.head_dim = 128;
        wide.has_norm = cases[i].has_norm;
        wide.has_bias = cases[i].has_bias;
        wide.is_cyclic = cases[i].is_cyclic;
        struct attention_case narrow = wide;
        narrow.has_gaps = true;
        struct case_data of_wide, of_narrow;
        struct case_result got = run_plain(&wide, &of_wide, &cuda_attention_masked, i % SCHEDULES);
        cr_assert_gt(launched.n_quads, 0);
        struct case_result expected = run_plain(&narrow, &of_narrow, &cuda_attention_masked, 0);
        cr_assert_eq(launched.n_quads, 0);
        cr_assert(case_same_bits(&of_wide, 0, &got, &expected), "case %u", i);
        case_result_finish(&got);
        case_result_finish(&expected);
        case_data_finish(&of_wide);
        case_data_finish(&of_narrow);
    }
}

/* Where scores live has no part in them, either; nor has the back end. */
Test(simt_cases, bits_of_stored_scores_depend_on_the_keys_alone)
{
    static const struct whole_case {
        enum attention_math math;
        enum dtype compute, cache;
        uint32_t n_heads, n_kv_heads, head_dim, window;
        float soft_cap, alibi_scale;
        bool has_sinks;
    } cases[] = {
        {MATH_COMPUTE, DTYPE_F32, DTYPE_F32, 3, 1, 16, 0, 0, 0, true},
        {MATH_BF16, DTYPE_BF16, DTYPE_BF16, 2, 1, 64, 70, 0, 0, false},
        {MATH_FP16, DTYPE_F16, DTYPE_INT8, 20, 1, 8, 0, 5, 0, true},
        {MATH_FP8, DTYPE_F32, DTYPE_E4M3, 2, 2, 136, 45, 0, 1, false},
    };
    uint32_t n_walked = 0;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct whole_case *from = &cases[i];
        struct attention_case c = plain_case(i == 2 ? 90 : 152, from->head_dim, from->window);
        c.math = from->math;
        c.compute = from->compute;
        c.cache = from->cache;
        c.n_heads = from->n_heads;
        c.n_kv_heads = from->n_kv_heads;
        c.soft_cap = from->soft_cap;
        c.alibi_scale = from->alibi_scale;
        c.has_sinks = from->has_sinks;
        static const enum attention_path paths[] = {PATH_UNFUSED, PATH_SHORT};
        c.path = paths[i % 2];
        check_context(&c, &paths[(i + 1) % 2]);
        struct attention_case other = c;
        struct case_data data;
        other.path = PATH_UNFUSED;
        other.sequences[0].prompt_len = other.sequences[0].len;
        other.n_generated = 0;
        struct case_result best = run_plain(&other, &data, &cuda_attention, 1);
        const struct case_options masked = {.backend = &cuda_attention_masked, .only = CASE_ALL};
        n_walked += launched.n_walking;
        struct case_result forced = table_run(&data, &masked, 2);
        cr_assert(table_launched_as_named(&other));
        cr_assert(case_same_bits(&data, 0, &best, &forced));
        case_result_finish(&best);
        case_result_finish(&forced);
        case_data_finish(&data);
    }
    cr_assert_gt(n_walked, 0, "in none of these has a CTA more than one turn");
}

/* A rank has the first keys alone: the window of later rows begins behind the last of them. */
Test(simt_cases, rows_whose_window_is_behind_the_keys_of_a_rank_see_nothing)
{
    struct attention_case c = plain_case(66, 16, 8);
    struct case_data data;
    c.keys = KEYS_SHARD;
    c.sequences[0].shard_first = 3;
    c.sequences[0].shard_end = 14;
    for (enum attention_path path = PATH_UNFUSED; path <= PATH_FLASH; path++) {
        c.path = path;
        struct case_result got = run_plain(&c, &data, &cuda_attention, 0);
        cr_assert(table_launched_as_named(&c));
        case_result_finish(&got);
        case_data_finish(&data);
    }
}

Test(simt_cases, a_forced_kernel_leaves_flash_alone)
{
    struct attention_case c = plain_case(40, 64, 0);
    struct case_data data;
    c.math = MATH_BF16;
    c.compute = c.cache = DTYPE_BF16;
    struct case_result got = run_plain(&c, &data, &cuda_attention_masked, 0);
    cr_assert_eq(launched.n_flash + launched.n_grouped, 0);
    case_result_finish(&got);
    case_data_finish(&data);
}

/* The same chunks of 32 tokens in other blocks, by other kernels, and with another sequence in the batch. */
static void check_int8(const struct attention_case *c)
{
    struct case_data data;
    struct case_result got = run_plain(c, &data, &cuda_attention_masked, 1);
    struct attention_case other = *c;
    cr_assert(gives(c, &cuda_attention_reference, 2, &got), "a row a warp");
    other.block_tokens = 32;
    other.chunk_blocks = 1;
    cr_assert(gives(&other, &cuda_attention, 2, &got), "blocks of 32");
    other = *c;
    other.is_contiguous = true;
    cr_assert(gives(&other, &cuda_attention_masked, 2, &got), "contiguous");
    other = *c;
    other.chunk_blocks = 6;
    cr_assert_not(gives(&other, &cuda_attention_masked, 2, &got), "chunks");
    case_result_finish(&got);
    case_data_finish(&data);
    check_beside(c, 72, 2, &cuda_attention_masked, 0);
}

/* Tiles are those of the step's keys: what a row of an early chunk does not see yet is none of its business. */
Test(simt_cases, bits_of_int8_math_depend_on_the_keys_and_the_chunks_alone)
{
    static const struct int8_case {
        enum attention_math math;
        enum dtype cache;
        uint32_t n_heads, head_dim, window;
        bool is_cyclic;
    } cases[] = {
        {MATH_INT8, DTYPE_F32, 2, 72, 0, false},
        {MATH_INT8_PV_FP8, DTYPE_BF16, 5, 136, 70, false},
        {MATH_INT8_PV_FP8, DTYPE_INT8, 20, 16, 40, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_case c = plain_case(152, cases[i].head_dim, cases[i].window);
        c.math = cases[i].math;
        c.cache = cases[i].cache;
        c.n_heads = cases[i].n_heads;
        c.is_cyclic = cases[i].is_cyclic;
        c.chunk_blocks = 4;
        check_int8(&c);
    }
}

/* Ranges without a key in sight are empty: lse tells where a ratio of sums would not. Ranges are the same in all kernels. */
Test(simt_cases, bits_of_a_window_do_not_depend_on_the_split_of_its_keys)
{
    static const uint32_t windows[] = {60, 300};
    for (uint32_t i = 0; i < 2; i++) {
        struct attention_case split = plain_case(602, 16, windows[i]), whole = split;
        split.multi_block = CHOICE_ON;
        whole.multi_block = CHOICE_OFF;
        struct case_data data;
        struct case_result of_split = run_plain(&split, &data, &cuda_attention, 0);
        assert_launched(&split);
        assert_gives(&whole, &of_split, "split");
        case_result_finish(&of_split);
        case_data_finish(&data);
        whole.multi_block = CHOICE_AUTO;
        struct case_result got = run_plain(&whole, &data, &cuda_attention_masked, 0);
        const struct case_options options = {.backend = &cuda_attention_reference,
                                             .only = CASE_ALL};
        struct case_result reference = table_run(&data, &options, 0);
        cr_assert_str_empty(reference.problem, "%s", reference.problem);
        cr_assert(case_same_bits(&data, 0, &got, &reference), "window %u", windows[i]);
        case_result_finish(&got);
        case_result_finish(&reference);
        case_data_finish(&data);
    }
}

/* The first sequence's rows over prompts that were written only: attending them takes most of the time, and is tested above. */
static void assert_generates(const struct attention_case *c, uint32_t schedule,
                             const struct case_result *expected, const char *what)
{
    const struct case_options options = {
        .backend = &cuda_attention, .only = CASE_ALL, .updates_prompts = true};
    struct case_data data;
    struct error error = {""};
    cr_assert(case_data_init(c, &data, &error), "%s", error.text);
    struct case_result got = table_run(&data, &options, schedule);
    cr_assert_str_empty(got.problem, "%s", got.problem);
    cr_assert_eq(launched.n_grouped != 0, takes_grouped(c), "%u", launched.n_grouped);
    cr_assert(case_same_bits(&data, 0, &got, expected), "%s, window %u, heads of %u", what,
              c->windows[0], c->head_dim);
    case_result_finish(&got);
    case_data_finish(&data);
}

/* Generation over several ranges of keys: ranges by CTAs of their own or not, other blocks, another sequence beside it. */
static void check_grouped(const struct attention_case *c)
{
    struct attention_case split = *c, whole = *c;
    split.multi_block = CHOICE_ON;
    whole.multi_block = CHOICE_OFF;
    whole.block_tokens = 32;
    struct case_data data;
    struct case_result got = run_plain(&split, &data, &cuda_attention, 0);
    assert_launched(&split);
    assert_generates(&whole, 3, &got, "not split");
    struct attention_case both = split;
    both.n_sequences = 2;
    both.sequences[1] = (struct case_sequence){
        .id = 2, .prompt_len = 39, .len = 39 + c->n_generated, .n_beams = 1};
    assert_generates(&both, 1, &got, "a sequence beside it");
    case_result_finish(&got);
    case_data_finish(&data);
}

Test(simt_cases, bits_of_the_grouped_kernel_depend_on_the_keys_alone)
{
    static const struct grouped_case {
        enum attention_math math;
        enum dtype cache;
        uint32_t n_heads, n_kv_heads, head_dim, window, n_draft_max, n_beams;
        float soft_cap, alibi_scale;
        bool has_sinks;
        enum dtype compute; /* F32: that of the math */
    } cases[] = {
        {MATH_BF16, DTYPE_BF16, 4, 1, 64, 0, 1, 1, 0, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_F16, 2, 2, 128, 250, 1, 1, 0, 0, true, DTYPE_F32},
        {MATH_BF16, DTYPE_INT8, 8, 1, 64, 0, 5, 1, 0, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_E4M3, 16, 1, 64, 20, 1, 1, 0, 0, true, DTYPE_F32},
        {MATH_BF16, DTYPE_E4M3, 2, 1, 128, 0, 1, 3, 5, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_INT8, 2, 1, 128, 0, 1, 1, 0, 1, false, DTYPE_F32},
        {MATH_FP16, DTYPE_F16, 20, 1, 64, 0, 3, 1, 0, 0, false, DTYPE_F32},
        {MATH_BF16, DTYPE_BF16, 4, 2, 128, 40, 4, 1, 0, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_INT8, 2, 1, 64, 0, 1, 1, 0, 0, false, DTYPE_BF16},
        {MATH_BF16, DTYPE_INT8, 2, 1, 64, 0, 1, 1, 0, 0, false, DTYPE_F16},
        /* as many heads as leave a CTA of a split two of three ranges */
        {MATH_BF16, DTYPE_BF16, 12, 12, 64, 0, 1, 1, 0, 0, false, DTYPE_F32},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct grouped_case *from = &cases[i];
        struct attention_case c = plain_case(i < 2 || from->n_kv_heads > 2 ? 520 : 290,
                                             from->head_dim, from->window);
        c.math = from->math;
        c.compute = c.math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
        if (from->compute != DTYPE_F32)
            c.compute = from->compute;
        c.cache = from->cache;
        c.n_heads = from->n_heads;
        c.n_kv_heads = from->n_kv_heads;
        c.n_draft_max = from->n_draft_max;
        c.is_tree = c.n_draft_max > 3;
        c.n_beams_max = c.sequences[0].n_beams = from->n_beams;
        c.soft_cap = from->soft_cap;
        c.alibi_scale = from->alibi_scale;
        c.has_sinks = from->has_sinks;
        c.n_generated = 6;
        c.sequences[0].prompt_len = c.sequences[0].len - 6;
        check_grouped(&c);
    }
}
