/* what is not computed is refused when it is created, with a sentence naming the field and its value;
 * what is not excluded is created. */
#include "kernels/attention_features.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/attention_list.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct attention_config GOOD = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};

/* One field changed; word must be in the sentence. */
struct bad_config {
    struct attention_config config;
    const char *word;
};

#define BAD(word, ...)                                                                             \
    {                                                                                              \
        {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, __VA_ARGS__}, word                         \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif
static const float NORM[64] = {1};
static const float TABLE[4 * 8 * 8] = {0};
static const float BIAS[(4 + 2 * 2) * 64] = {0};
static const struct bad_config bad_configs[] = {
    BAD("n_heads 0", .n_heads = 0),
    BAD("n_kv_heads 0", .n_kv_heads = 0),
    BAD("n_heads 5 is no multiple", .n_heads = 5),
    BAD("head_dim is 0", .head_dim = 0),
    BAD("head_dim is 60", .head_dim = 60),
    BAD("head_dim is 520", .head_dim = 520),
    BAD("compute dtype is 4", .compute = DTYPE_E4M3),
    BAD("compute dtype is 3", .compute = DTYPE_INT8),
    BAD("cache dtype is 5", .cache = DTYPE_E2M1),
    BAD("cache dtype is 7", .cache = (enum dtype)7),
    BAD("k_scale is 0", .cache = DTYPE_INT8, .v_scale = 1),
    BAD("v_scale is -2", .cache = DTYPE_E4M3, .k_scale = 1, .v_scale = -2),
    BAD("k_scale is nan", .cache = DTYPE_E4M3, .k_scale = NAN, .v_scale = 1),
    BAD("k_scale is 0", .math = MATH_FP8, .q_scale = 1, .v_scale = 1),
    BAD("q_scale is 0", .math = MATH_FP8, .k_scale = 1, .v_scale = 1),
    BAD("output_scale is -1", .output_scale = -1),
    BAD("q_scaling is -1", .q_scaling = -1),
    BAD("scale is -0.5", .scale = -0.5f),
    BAD("scale is inf", .scale = INFINITY),
    BAD("q_scaling 1 and scale 0.5", .scale = 0.5f, .q_scaling = 1),
    BAD("soft_cap is -30", .soft_cap = -30),
    BAD("alibi_scale is -1", .bias.alibi_scale = -1),
    BAD("n_queries 0 and n_keys 8", .bias = {.table = TABLE, .n_keys = 8}),
    BAD("n_queries 8 and n_keys 0", .bias = {.table = TABLE, .n_queries = 8}),
    BAD("n_buckets is 0", .bias = {.buckets = TABLE, .distance_max = 8}),
    BAD("n_buckets is 7, must be at least 4 and even",
        .bias = {.buckets = TABLE, .n_buckets = 7, .distance_max = 8, .is_bidirectional = true}),
    BAD("n_buckets is 2",
        .bias = {.buckets = TABLE, .n_buckets = 2, .distance_max = 8, .is_bidirectional = true}),
    BAD("distance_max is 4", .bias = {.buckets = TABLE, .n_buckets = 8, .distance_max = 4}),
    BAD("mask is 3", .mask = (enum attention_mask)3),
    BAD("mask_input is 3", .mask_input = (enum attention_mask_input)3),
    BAD("keys is 3", .keys = (enum attention_keys)3),
    BAD("path is 4", .path = (enum attention_path)4),
    BAD("math is 6", .math = (enum attention_math)6),
    BAD("multi_block is 3", .multi_block = (enum attention_choice)3),
    BAD("grouped is 3", .grouped = (enum attention_choice)3),
    BAD("is_cyclic with window 0", .is_cyclic = true),
    BAD("A14 cyclic cache (is_cyclic) excludes P1", .is_cyclic = true, .window = 16,
        .reuses_prefix = true),
    BAD("sink_tokens is 4, must be under the window, 0", .sink_tokens = 4),
    BAD("sink_tokens is 16, must be under the window, 16", .sink_tokens = 16, .window = 16),
    BAD("mask is 1 with window 16", .mask = MASK_CAUSAL_UPPER_LEFT, .window = 16),
    BAD("mask is 2 with window 16", .mask = MASK_BIDIRECTIONAL, .window = 16, .sink_tokens = 4),
    BAD("mask is 2 with n_draft_max 4", .mask = MASK_BIDIRECTIONAL, .n_draft_max = 4),
    BAD("mask is 2 with reuses_prefix", .mask = MASK_BIDIRECTIONAL, .reuses_prefix = true),
    BAD("mask is 0 with KEYS_CROSS", .keys = KEYS_CROSS),
    BAD("n_draft_max is 65", .n_draft_max = 65),
    BAD("A3 context phase unfused, short or flash (path) excludes S1", .math = MATH_INT8,
        .path = PATH_UNFUSED),
    BAD("(math MATH_INT8, MATH_INT8_PV_FP8): K is rounded by tiles", .math = MATH_INT8_PV_FP8,
        .path = PATH_SHORT),
    BAD("norm_eps is 0", .q_norm = NORM),
    BAD("norm dtype is 9", .k_norm = NORM, .norm_eps = 1, .norm_dtype = (enum dtype)9),
    BAD("qkv_bias dtype is 3", .qkv_bias = TABLE, .qkv_bias_dtype = DTYPE_INT8),
};
#pragma GCC diagnostic pop

Test(refusal, a_configuration_that_is_not_computed_is_refused_by_name)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof bad_configs / sizeof bad_configs[0]; i++) {
            struct attention *attention = NULL;
            struct error error = {""};
            cr_assert_eq(
                list[k]->attention->create(&bad_configs[i].config, NULL, &attention, &error),
                STATUS_INVALID_ARGUMENT, "case %zu", i);
            cr_assert(strstr(error.text, bad_configs[i].word), "case %zu: %s", i, error.text);
            cr_assert_null(attention);
        }
}

static struct rope *make_rope(uint32_t head_dim, enum rope_scaling scaling)
{
    struct rope_config config = {.head_dim = head_dim,
                                 .positions_max = 64,
                                 .theta = 10000,
                                 .scaling = scaling,
                                 .factor = 2,
                                 .original_positions = 32};
    struct rope *rope = NULL;
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    return rope;
}

static void assert_refused(const struct attention_config *config, const char *word)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++) {
        struct attention *attention = NULL;
        struct error error = {""};
        cr_assert_eq(list[k]->attention->create(config, NULL, &attention, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, word), "%s", error.text);
        cr_assert_null(attention);
    }
}

Test(refusal, a_rope_that_does_not_fit_the_layer_is_refused)
{
    struct rope *small = make_rope(32, ROPE_NONE), *dynamic = make_rope(64, ROPE_DYNAMIC);
    struct attention_config config = GOOD;
    config.rope = small;
    assert_refused(&config, "the rope is of head_dim 32, head_dim is 64");
    config.rope = dynamic;
    config.window = 16;
    config.sink_tokens = 4;
    assert_refused(&config, "sink_tokens 4 with a rope");
    rope_destroy(small);
    rope_destroy(dynamic);
}

/* Features that a configuration asks for. */
static const uint32_t asked[] = {3,
                                 4,
                                 6,
                                 7,
                                 12,
                                 13,
                                 14,
                                 16,
                                 17,
                                 18,
                                 19,
                                 20,
                                 21,
                                 22,
                                 23,
                                 24,
                                 25,
                                 27,
                                 29,
                                 30,
                                 31,
                                 33,
                                 FEATURE_INT8,
                                 FEATURE_BIAS,
                                 FEATURE_PREFIX,
                                 FEATURE_BF16,
                                 FEATURE_FP16};
enum { N_ASKED = sizeof asked / sizeof asked[0] };

/* Which keys, by which distance. */
static void ask_for_keys(uint32_t number, struct attention_config *config)
{
    switch (number) {
    case 13:
        config->window = 16;
        return;
    case 14:
        config->window = 16;
        config->is_cyclic = true;
        return;
    case 16:
        config->window = 16;
        config->sink_tokens = 4;
        return;
    case 19:
        config->bias.alibi_scale = 1;
        return;
    case 21:
        config->keys = KEYS_CROSS;
        config->mask = MASK_BIDIRECTIONAL;
        return;
    case 22:
        config->bias.table = TABLE;
        return;
    case 23:
        config->bias.buckets = TABLE;
        return;
    case 31:
        config->keys = KEYS_SHARD;
        return;
    }
    cr_assert_fail("feature %u is none of a configuration", number);
}

static enum attention_math math_of(uint32_t number)
{
    switch (number) {
    case 4:
        return MATH_FP8;
    case FEATURE_INT8:
        return MATH_INT8;
    case FEATURE_BF16:
        return MATH_BF16;
    case FEATURE_FP16:
        return MATH_FP16;
    }
    return MATH_COMPUTE;
}

static void ask_for(uint32_t number, const struct rope *rope, struct attention_config *config)
{
    if (math_of(number) != MATH_COMPUTE) {
        config->math = math_of(number);
        return;
    }
    switch (number) {
    case 3:
        config->path = PATH_UNFUSED;
        return;
    case 6:
        config->multi_block = CHOICE_ON;
        return;
    case 7:
        config->grouped = CHOICE_OFF;
        return;
    case 12:
        config->cache = DTYPE_INT8;
        return;
    case 17:
        config->n_beams_max = 4;
        return;
    case 18:
        config->rope = rope;
        return;
    case 20:
        config->soft_cap = 30;
        return;
    case 24:
        config->mask_input = MASK_INPUT_BOOL;
        return;
    case 25:
        config->sinks = NORM;
        return;
    case 27:
        config->output_scale = 1;
        return;
    case 29:
        config->compute = DTYPE_BF16;
        return;
    case 30:
        config->k_norm = NORM;
        return;
    case 33:
        config->n_draft_max = 4;
        return;
    case FEATURE_BIAS:
        config->qkv_bias = BIAS;
        return;
    case FEATURE_PREFIX:
        config->reuses_prefix = true;
        return;
    }
    ask_for_keys(number, config);
}

/* What the values of a feature need besides. */
static struct attention_config pair(uint32_t first, uint32_t second, const struct rope *rope)
{
    struct attention_config config = GOOD;
    config.k_scale = config.v_scale = config.q_scale = config.norm_eps = 1;
    config.bias.n_queries = config.bias.n_keys = config.bias.n_buckets = 8;
    config.bias.distance_max = 32;
    ask_for(first, rope, &config);
    ask_for(second, rope, &config);
    return config;
}

static const struct attention_exclusion *find_exclusion(uint32_t first, uint32_t second)
{
    const struct attention_exclusion *exclusions;
    uint32_t n = attention_exclusions(&exclusions);
    for (uint32_t i = 0; i < n; i++)
        if (exclusions[i].first == first && exclusions[i].second == second)
            return &exclusions[i];
    return NULL;
}

Test(refusal, two_features_that_exclude_each_other_are_refused_with_the_reason)
{
    struct rope *rope = make_rope(64, ROPE_NONE);
    const struct attention_exclusion *exclusions;
    uint32_t n = attention_exclusions(&exclusions);
    for (uint32_t i = 0; i < n; i++) {
        char first[8], second[8];
        struct attention_config config = pair(exclusions[i].first, exclusions[i].second, rope);
        snprintf(first, sizeof first, "%s ", attention_feature(exclusions[i].first)->id);
        snprintf(second, sizeof second, "%s ", attention_feature(exclusions[i].second)->id);
        cr_assert_lt(exclusions[i].first, exclusions[i].second);
        assert_refused(&config, exclusions[i].reason);
        assert_refused(&config, first);
        assert_refused(&config, second);
    }
    rope_destroy(rope);
}

Test(refusal, every_other_pair_is_created)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    struct rope *rope = make_rope(64, ROPE_NONE);
    for (uint32_t i = 0; i < N_ASKED; i++)
        for (uint32_t j = i; j < N_ASKED; j++) {
            struct attention_config config = pair(asked[i], asked[j], rope);
            for (uint32_t k = 0; k < n && !find_exclusion(asked[i], asked[j]); k++) {
                struct attention *attention = NULL;
                struct error error = {""};
                cr_assert_eq(list[k]->attention->create(&config, NULL, &attention, &error),
                             STATUS_OK, "%s with %s: %s", attention_feature(asked[i])->id,
                             attention_feature(asked[j])->id, error.text);
                list[k]->attention->destroy(attention);
            }
        }
    rope_destroy(rope);
}

Test(refusal, a_dummy_step_writes_zeros_and_no_cache)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    struct attention_limits limits = {.n_sequences_max = 1,
                                      .n_tokens_max = 9,
                                      .kv_len_max = 64,
                                      .n_heads = 4,
                                      .n_kv_heads = 2,
                                      .head_dim = 64};
    struct kv_view kv = kv_view_dense(NULL, 0, 0, 2, 16, 64, DTYPE_F32);
    struct attention_sequence sequence = {
        .phase = PHASE_CONTEXT, .query_len = 9, .kv_len = 9, .prompt_len = 9};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1, .is_dummy = true};
    for (uint32_t k = 0; k < n; k++) {
        const struct attention_backend *backend = list[k]->attention;
        struct attention *attention;
        struct attention_metadata *metadata;
        static float qkv[9 * 8 * 64], output[9 * 4 * 64];
        memset(output, 0xff, sizeof output);
        struct attention_io io = attention_io_fused(&GOOD, qkv, 8 * 64, output, 4 * 64);
        cr_assert_eq(backend->create(&GOOD, NULL, &attention, NULL), STATUS_OK);
        cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
        cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, NULL), STATUS_OK);
        cr_assert_eq(backend->forward(attention, metadata, &io, NULL), STATUS_OK);
        for (uint32_t i = 0; i < 9 * 4 * 64; i++)
            cr_assert_eq(output[i], 0);
        backend->metadata_destroy(metadata);
        backend->destroy(attention);
    }
}
