/* geometry: arithmetic in 64 bits, and a sentence that names the field that is wrong or differs. */
#include "kvcache/geometry.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct geometry GOOD = {.n_layers = 5,
                                     .n_kv_heads = 2,
                                     .head_dim = 32,
                                     .block_tokens = 32,
                                     .dtype = KV_BF16,
                                     .model_digest = {1, 2}};

Test(geometry, counts_bytes_and_blocks)
{
    struct error error;
    cr_assert_eq(geometry_check(&GOOD, &error), STATUS_OK);
    cr_assert_eq(geometry_block_bytes(&GOOD), 5 * 2 * 2 * 32 * 32 * 2);
    cr_assert_eq(geometry_blocks(&GOOD, 0), 0);
    cr_assert_eq(geometry_blocks(&GOOD, 32), 1);
    cr_assert_eq(geometry_blocks(&GOOD, 33), 2);
    cr_assert_eq(geometry_blocks(&GOOD, UINT32_MAX), 1u << 27);
}

/* One row a token and layer, in place of K and V of each head. */
Test(geometry, counts_the_bytes_of_latents)
{
    struct geometry latents = GOOD, heads = GOOD;
    struct error error = {""};
    latents.n_kv_heads = 1;
    latents.head_dim = 40;
    latents.latent_dim = 32;
    cr_assert_eq(geometry_check(&latents, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(geometry_rows(&latents), 1);
    cr_assert_eq(geometry_rows(&heads), 2);
    cr_assert_eq(geometry_block_bytes(&latents), 5 * 32 * 40 * 2);
    heads = latents;
    heads.latent_dim = 24;
    cr_assert_eq(geometry_match(&latents, &heads, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text, "KV layout: latent_dim is 32 here and 24 there");
    heads.latent_dim = 0;
    cr_assert_eq(geometry_match(&heads, &latents, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text, "KV layout: latent_dim is 0 here and 32 there");
}

Test(geometry, names_the_field_that_is_wrong)
{
    static const struct {
        struct geometry geometry;
        const char *field;
    } CASES[] = {
        {{0, 2, 32, 32, KV_BF16, {0}, "", 0, {0}, 0, {0}, false}, "n_layers"},
        {{5, 0, 32, 32, KV_BF16, {0}, "", 0, {0}, 0, {0}, false}, "n_kv_heads"},
        {{5, 2, 0, 32, KV_BF16, {0}, "", 0, {0}, 0, {0}, false}, "head_dim"},
        {{5, 2, 32, 0, KV_BF16, {0}, "", 0, {0}, 0, {0}, false}, "block_tokens"},
        {{5, 2, 32, 24, KV_BF16, {0}, "", 0, {0}, 0, {0}, false}, "block_tokens"},
        {{5, 2, 32, 256, KV_BF16, {0}, "", 0, {0}, 0, {0}, false}, "block_tokens"},
        {{5, 2, 32, 32, (enum kv_dtype)9, {0}, "", 0, {0}, 0, {0}, false}, "dtype"},
        {{5, 2, 32, 32, KV_INT8, {0}, "", 0, {0}, 0, {0}, false},
         "kv_scales is 0000000000000000 with dtype int8"},
        {{5, 2, 32, 32, KV_F16, {0}, "", 0xab, {0}, 0, {0}, false},
         "kv_scales is 00000000000000ab with dtype f16"},
        {{5, 2, 40, 32, KV_F16, {0}, "", 0, {0}, 32, {0}, false},
         "latent_dim is 32 with n_kv_heads 2 and head_dim 40"},
        {{5, 1, 32, 32, KV_F16, {0}, "", 0, {0}, 32, {0}, false},
         "latent_dim is 32 with n_kv_heads 1"},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, 128, KV_F32, {0}, "", 0, {0}, 0, {0}, false},
         "bytes"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct error error = {""};
        cr_assert_eq(geometry_check(&CASES[i].geometry, &error), STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, CASES[i].field) != NULL, "%s", error.text);
    }
}

/* Of a model of five layers. */
Test(geometry, names_the_group_that_is_wrong)
{
    static const struct {
        struct cache_groups groups;
        struct sink_window sinks;
        const char *says;
    } CASES[] = {
        {{17, 5, {{5, 0, {0}}}, 0}, {0}, "groups are 17, at most 16"},
        {{2, 4, {{4, 0, {0}}, {0, 9, {0}}}, 0}, {0}, "group 1 has 0 layers, wanted 1 to 4"},
        {{1, 4, {{5, 0, {0}}}, 0}, {0}, "group 0 has 5 layers, wanted 1 to 4"},
        {{2, 4, {{4, 9, {0}}, {1, 0, {0}}}, 0},
         {0},
         "group 1 has window 0 behind one with a window"},
        {{2, 4, {{4, 0, {0}}, {2, 9, {0}}}, 0}, {0}, "groups have 6 layers of n_layers 5"},
        {{2, 4, {{4, 0, {2, 32}}, {1, 9, {0}}}, 0},
         {0},
         "group 1 has n_kv_heads 0 and head_dim 0, wanted both above 0"},
        {{2, 4, {{4, 0, {0}}, {1, 9, {0, 8}}}, 0},
         {0},
         "group 1 has n_kv_heads 0 and head_dim 8, wanted both 0"},
        {{2, 4, {{3, 0, {2, 64}}, {2, 9, {2, 32}}}, 0}, {0}, "group 0 has 3 layers, wanted 1 to 2"},
        {{2, 4, {{1, 0, {1u << 20, 1u << 20}}, {4, 9, {2, 32}}}, 0},
         {0},
         "group 0 has n_kv_heads 1048576 and head_dim 1048576"},
        {{1, 5, {{5, 0, {0}}}, 4097},
         {0},
         "recurrent state has 4097 blocks, at most 4096: raise kv_block_tokens"},
        {{0}, {8, 8}, "sink_tokens are 8 of a window of 8"},
        {{0}, {0, 4}, "sink_tokens are 4 of a window of 0"},
        {{2, 4, {{4, 0, {0}}, {1, 9, {0}}}, 0},
         {64, 4},
         "sink_tokens are 4 with 2 groups of layers and 0 blocks of recurrent state: expected one"},
        {{1, 5, {{5, 0, {0}}}, 3},
         {64, 4},
         "sink_tokens are 4 with 1 groups of layers and 3 blocks of recurrent state: expected one"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct geometry geometry = {.n_layers = 5,
                                          .n_kv_heads = 2,
                                          .head_dim = 32,
                                          .block_tokens = 32,
                                          .dtype = KV_F16,
                                          .groups = CASES[i].groups,
                                          .sinks = CASES[i].sinks};
        struct error error = {""};
        cr_assert_eq(geometry_check(&geometry, &error), STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, CASES[i].says) != NULL, "%s", error.text);
    }
}

Test(geometry, names_the_field_that_differs_and_both_values)
{
    struct error error = {""};
    struct geometry other = GOOD;
    cr_assert_eq(geometry_match(&GOOD, &other, "equal", &error), STATUS_OK);
    other.block_tokens = 16;
    cr_assert_eq(geometry_match(&GOOD, &other, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "block_tokens is 32 here and 16 there") != NULL, "%s", error.text);
    other = GOOD;
    other.dtype = (enum kv_dtype)77; /* from the wire */
    cr_assert_eq(geometry_match(&GOOD, &other, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    other = GOOD;
    other.model_digest[1]++;
    cr_assert_eq(geometry_match(&GOOD, &other, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "model_digest") != NULL, "%s", error.text);

    struct geometry ours = GOOD;
    ours.dtype = KV_E4M3;
    ours.kv_scales = 1;
    other = ours;
    cr_assert_eq(geometry_match(&ours, &other, "equal", &error), STATUS_OK);
    other.kv_scales = 0xff;
    cr_assert_eq(geometry_match(&ours, &other, "any", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text, "KV layout: kv_scales is 0000000000000001 here and "
                                 "00000000000000ff there: K and V are stored in other units");
}

Test(geometry, other_numerics_differ_unless_they_are_allowed)
{
    struct error error = {""};
    struct geometry ours = GOOD, theirs = GOOD;
    snprintf(ours.numerics, sizeof ours.numerics, "cpu-f32-fma-fma-compute-asis-2");
    snprintf(theirs.numerics, sizeof theirs.numerics, "cpu-f32-fma-amx-bf16-asis-2");
    cr_assert_eq(geometry_match(&ours, &ours, "equal", &error), STATUS_OK);
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text, "KV layout: numerics is cpu-f32-fma-fma-compute-asis-2 here and "
                                 "cpu-f32-fma-amx-bf16-asis-2 there; allow_numerics is equal");
    cr_assert_eq(geometry_match(&ours, &theirs, "any", &error), STATUS_OK);
    theirs.numerics[0] = '\0';
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "here and not told there"), "%s", error.text);
    theirs.head_dim++;
    cr_assert_eq(geometry_match(&ours, &theirs, "any", &error), STATUS_GEOMETRY_MISMATCH,
                 "what is allowed is no other layout");
}

Test(geometry, dtypes_have_names)
{
    for (enum kv_dtype dtype = KV_F32; dtype <= KV_E4M3; dtype++) {
        enum kv_dtype parsed = KV_F32;
        cr_assert_eq(kv_dtype_parse(kv_dtype_name(dtype), &parsed), STATUS_OK);
        cr_assert_eq(parsed, dtype);
    }
    enum kv_dtype parsed;
    cr_assert_eq(kv_dtype_parse("f8", &parsed), STATUS_INVALID_ARGUMENT);
}

Test(geometry, groups_of_layers_differ_by_kinds_and_windows)
{
    struct geometry ours = GOOD, theirs = GOOD;
    struct error error = {""};
    theirs.groups = (struct cache_groups){1, 5, {{5, 0, {0}}}, 0};
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_OK,
                 "one group may be told or not");
    theirs.groups = (struct cache_groups){3, 2, {{1, 0, {0}}, {2, 64, {0}}, {2, 64, {0}}}, 0};
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text,
                     "KV layout: groups of layers are 5 of all tokens here and 1 of all "
                     "tokens, 2 + 2 of window 64 there");
    ours.groups = theirs.groups;
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_OK);
    ours.groups.all[2].window = 128;
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text,
                     "KV layout: groups of layers are 1 of all tokens, 2 of window 64, 2 of window "
                     "128 here and 1 of all tokens, 2 + 2 of window 64 there");
}

Test(geometry, a_recurrent_state_is_a_part_of_a_sequence_and_has_as_many_blocks_on_both_sides)
{
    struct geometry ours = GOOD, theirs = GOOD;
    struct error error = {""};
    uint64_t whole;
    ours.groups = theirs.groups = (struct cache_groups){1, 5, {{5, 0, {0}}}, 7};
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_OK);
    cr_assert_eq(geometry_blocks(&ours, 100), 4 + 7);
    cr_assert_eq(geometry_blocks(&ours, 0), 0);
    cr_assert_eq(geometry_sequence_bytes(&ours, 100, &whole), 11 * geometry_block_bytes(&ours));
    theirs.groups.n_state = 8;
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text, "KV layout: blocks of recurrent state is 7 here and 8 there");
    theirs = ours;
    theirs.block_tokens = 16;
    cr_assert_eq(geometry_match_converting(&ours, &theirs, "equal", true, &error),
                 STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text, "KV layout: block_tokens is 32 here and 16 there, and layers have "
                                 "recurrent state");
    theirs = ours;
    theirs.dtype = KV_F16;
    cr_assert_eq(geometry_match_converting(&ours, &theirs, "equal", true, &error),
                 STATUS_GEOMETRY_MISMATCH);
}

/* A layer of group 0 takes two places, one of the others one. */
static struct geometry unequal(void)
{
    struct geometry geometry = GOOD;
    geometry.groups = (struct cache_groups){
        2, 4, {{2, 0, {1, 2 * GOOD.n_kv_heads * GOOD.head_dim}}, {3, 64, {2, 32}}}, 0};
    return geometry;
}

Test(geometry, groups_may_have_heads_of_their_own)
{
    const struct geometry ours = unequal();
    struct geometry theirs = ours;
    struct error error = {""};
    uint64_t whole;
    cr_assert_eq(geometry_check(&ours, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(geometry_block_bytes(&ours), 4 * 2 * 2 * 32 * 32 * 2, "places, K and V, a place");
    cr_assert_eq(geometry_layers_of_block(&ours, 0), 2);
    cr_assert_eq(geometry_layers_of_block(&ours, 1), 4);
    cr_assert_eq(geometry_sequence_bytes(&ours, 64, &whole), (2 + 2) * geometry_block_bytes(&ours));
    cr_assert_eq(whole, 2 * geometry_block_bytes(&ours) / 4 * (2 * 2 + 3), "without padding");
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_OK);
    theirs.groups.all[0].heads = (struct cache_heads){2, 64};
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text,
                     "KV layout: n_kv_heads of group 0 of layers is 1 here and 2 there");
    theirs.groups.all[0].heads = (struct cache_heads){1, 64};
    theirs.groups.places = 4;
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert_str_eq(error.text,
                     "KV layout: head_dim of group 0 of layers is 128 here and 64 there");
    theirs = ours;
    theirs.groups.all[0].heads = theirs.groups.all[1].heads = (struct cache_heads){0};
    cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "of group 0 of layers"), "%s", error.text);
}

Test(geometry, blocks_have_the_places_of_a_group)
{
    struct geometry windows = GOOD;
    struct error error = {""};
    uint64_t whole;
    windows.groups = (struct cache_groups){3, 2, {{1, 0, {0}}, {2, 64, {0}}, {2, 64, {0}}}, 0};
    cr_assert_eq(geometry_check(&windows, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(geometry_block_bytes(&windows), 2 * 2 * 2 * 32 * 32 * 2);
    cr_assert_eq(geometry_spans(&windows, 1000), 32);
    cr_assert_eq(geometry_blocks(&windows, 1000), 32 + 2 * 3);
    cr_assert_eq(geometry_step_blocks(&windows, &(struct cache_step){64, 8, 1000}), 2 * 1);
    cr_assert_eq(geometry_sequence_bytes(&windows, 1000, &whole),
                 38 * geometry_block_bytes(&windows));
    cr_assert_eq(whole, 32 * geometry_block_bytes(&GOOD));
}

Test(geometry, other_blocks_are_accepted_by_who_converts_them)
{
    static const struct {
        uint32_t block_tokens;
        enum kv_dtype dtype;
        bool has_window;
        const char *says; /* without converting; with it, if it is refused then, too */
        bool is_converted;
    } CASES[] = {
        {32, KV_BF16, false, "", true},
        {32, KV_BF16, true, "", true},
        {8, KV_BF16, false, "block_tokens is 32 here and 8 there; with kv_convert it is accepted",
         true},
        {128, KV_F32, false, "block_tokens is 32 here and 128 there; with kv_convert", true},
        {32, KV_F16, true, "dtype is bf16 here and f16 there; with kv_convert it is accepted",
         true},
        {32, KV_INT8, false, "dtype is bf16 here and int8 there", false},
        {16, KV_BF16, true, "block_tokens is 32 here and 16 there, and layers have windows", false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct geometry ours = GOOD;
        struct error error = {""};
        if (CASES[i].has_window)
            ours.groups = (struct cache_groups){2, 3, {{2, 0, {0}}, {3, 64, {0}}}, 0};
        struct geometry theirs = ours;
        theirs.block_tokens = CASES[i].block_tokens;
        theirs.dtype = CASES[i].dtype;
        theirs.kv_scales = CASES[i].dtype == KV_INT8;
        cr_assert_eq(geometry_match(&ours, &theirs, "equal", &error) == STATUS_OK,
                     CASES[i].says[0] == '\0', "case %zu", i);
        cr_assert(strstr(error.text, CASES[i].says), "%s", error.text);
        cr_assert_eq(geometry_match_converting(&ours, &theirs, "equal", true, &error) == STATUS_OK,
                     CASES[i].is_converted, "case %zu: %s", i, error.text);
        if (!CASES[i].is_converted)
            cr_assert(strstr(error.text, CASES[i].says), "%s", error.text);
        cr_assert_eq(geometry_has_equal_blocks(&ours, &theirs),
                     CASES[i].block_tokens == 32 && CASES[i].dtype == KV_BF16);
    }
}

Test(geometry, a_reply_window_lies_between_sinks_and_window)
{
    static const struct {
        struct sink_window sinks;
        uint32_t window;
        const char *says;
    } CASES[] = {
        {{0}, 1, "sampling.reply_window is 1; the workers have no sink_tokens"},
        {{0}, UINT32_MAX, "sampling.reply_window is 4294967295; the workers have no sink_tokens"},
        {{64, 4},
         1,
         "sampling.reply_window is 1; it must be over sink_tokens, 4, and at most the workers' "
         "attention_window, 64"},
        {{64, 4},
         4,
         "sampling.reply_window is 4; it must be over sink_tokens, 4, and at most the workers' "
         "attention_window, 64"},
        {{64, 4},
         65,
         "sampling.reply_window is 65; it must be over sink_tokens, 4, and at most the workers' "
         "attention_window, 64"},
        {{64, 4},
         UINT32_MAX,
         "sampling.reply_window is 4294967295; it must be over sink_tokens, 4, and at most the "
         "workers' attention_window, 64"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct geometry geometry = {.sinks = CASES[i].sinks};
        struct error error = {""};
        cr_expect_eq(geometry_check_reply_window(&geometry, CASES[i].window, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(error.text, CASES[i].says);
    }
    const struct geometry geometry = {.sinks = {64, 4}};
    cr_expect_eq(geometry_check_reply_window(&geometry, 0, NULL), STATUS_OK);
    cr_expect_eq(geometry_check_reply_window(&geometry, 5, NULL), STATUS_OK);
    cr_expect_eq(geometry_check_reply_window(&geometry, 64, NULL), STATUS_OK);
}
