/* what is not computed is refused when it is created or prepared, with a sentence naming it. */
#include "kernels/kernels.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct attention_config GOOD = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};

/* One field changed; word must be in the sentence. */
struct bad_config {
    struct attention_config config;
    enum status status;
    const char *word;
};

#define BAD(status, word, ...)                                                                     \
    {                                                                                              \
        {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, __VA_ARGS__}, STATUS_##status, word        \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif
static const float NORM[64] = {1};
static const struct bad_config bad_configs[] = {
    BAD(INVALID_ARGUMENT, "n_heads", .n_heads = 0),
    BAD(INVALID_ARGUMENT, "n_kv_heads", .n_kv_heads = 0),
    BAD(INVALID_ARGUMENT, "multiple", .n_heads = 5),
    BAD(INVALID_ARGUMENT, "head_dim", .head_dim = 0),
    BAD(INVALID_ARGUMENT, "head_dim", .head_dim = 60),
    BAD(INVALID_ARGUMENT, "head_dim", .head_dim = 264),
    BAD(INVALID_ARGUMENT, "compute", .compute = DTYPE_E4M3),
    BAD(INVALID_ARGUMENT, "cache", .cache = (enum dtype)7),
    BAD(INVALID_ARGUMENT, "soft_cap", .soft_cap = -30),
    BAD(INVALID_ARGUMENT, "mask", .mask = (enum attention_mask)3),
    BAD(INVALID_ARGUMENT, "sink_tokens", .sink_tokens = 4),
    BAD(INVALID_ARGUMENT, "q_scaling", .q_scaling = -1),
    BAD(INVALID_ARGUMENT, "scale", .scale = -0.5f),
    BAD(INVALID_ARGUMENT, "one of them", .scale = 0.5f, .q_scaling = 1),
    BAD(INVALID_ARGUMENT, "norm_eps", .q_norm = NORM),
    BAD(INVALID_ARGUMENT, "norm dtype", .k_norm = NORM, .norm_eps = 1, .norm_dtype = (enum dtype)9),
};
#pragma GCC diagnostic pop

Test(refusal, a_configuration_that_is_not_computed_is_refused_by_name)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof bad_configs / sizeof bad_configs[0]; i++) {
            struct attention *attention = NULL;
            struct error error = {""};
            cr_assert_eq(
                list[k]->attention->create(&bad_configs[i].config, NULL, &attention, &error),
                bad_configs[i].status, "case %zu", i);
            cr_assert(strstr(error.text, bad_configs[i].word), "case %zu: %s", i, error.text);
            cr_assert_null(attention);
        }
}

Test(refusal, a_rope_of_another_head_size_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    kernels_list(list, KERNELS_MAX);
    struct rope_config rope_config = {.head_dim = 32, .positions_max = 8, .theta = 10000};
    struct rope *rope;
    struct attention *attention = NULL;
    struct error error;
    cr_assert_eq(rope_create(&rope_config, &rope, &error), STATUS_OK);
    struct attention_config config = GOOD;
    config.rope = rope;
    cr_assert_eq(list[0]->attention->create(&config, NULL, &attention, &error),
                 STATUS_INVALID_ARGUMENT);
    rope_destroy(rope);
}

struct bad_step {
    const char *word;
    struct attention_sequence sequences[3];
    uint32_t n_sequences;
};

static const uint32_t BLOCKS[] = {0, 1, 2, 3};
static const uint32_t FAR_BLOCKS[] = {0, 4, 1, 2};

#define CONTEXT(query, kv, prompt, blocks, n)                                                      \
    {                                                                                              \
        .phase = PHASE_CONTEXT, .query_len = query, .kv_len = kv, .prompt_len = prompt,            \
        .block_ids = blocks, .n_blocks = n                                                         \
    }
#define GENERATION(query, kv)                                                                      \
    {                                                                                              \
        .phase = PHASE_GENERATION, .query_len = query, .kv_len = kv, .block_ids = BLOCKS,          \
        .n_blocks = 4                                                                              \
    }

static const struct bad_step bad_steps[] = {
    {"follows a generation", {GENERATION(1, 5), CONTEXT(8, 8, 8, BLOCKS, 4)}, 2},
    {"query_len 2", {GENERATION(2, 5)}, 1},
    {"query_len 0", {GENERATION(0, 5)}, 1},
    {"multiple of 16", {CONTEXT(17, 17, 40, BLOCKS, 4)}, 1},
    {"prompt_len 16", {CONTEXT(17, 17, 16, BLOCKS, 4)}, 1},
    {"kv_len", {CONTEXT(17, 16, 17, BLOCKS, 4)}, 1},
    {"kv_len", {GENERATION(1, 65)}, 1},
    {"needs 3", {CONTEXT(33, 33, 33, BLOCKS, 2)}, 1},
    {"block id 4", {CONTEXT(17, 17, 17, FAR_BLOCKS, 2)}, 1},
    {"3 sequences", {GENERATION(1, 1), GENERATION(1, 2), GENERATION(1, 3)}, 3},
    {"66 tokens", {CONTEXT(33, 33, 33, BLOCKS, 4), CONTEXT(33, 33, 33, BLOCKS, 4)}, 2},
};

Test(refusal, a_step_out_of_order_or_bounds_is_refused_and_changes_nothing)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    struct attention_limits limits = {.n_sequences_max = 2,
                                      .n_tokens_max = 64,
                                      .kv_len_max = 64,
                                      .n_heads = 4,
                                      .n_kv_heads = 2,
                                      .head_dim = 64};
    struct kv_view kv = kv_view_dense(NULL, 4, 1, 2, 16, 64, DTYPE_F32);
    for (uint32_t k = 0; k < n; k++) {
        const struct attention_backend *backend = list[k]->attention;
        struct attention_metadata *metadata;
        cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
        for (size_t i = 0; i < sizeof bad_steps / sizeof bad_steps[0]; i++) {
            struct error error = {""};
            struct attention_step step = {.sequences = bad_steps[i].sequences,
                                          .n_sequences = bad_steps[i].n_sequences};
            cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, &error),
                         STATUS_INVALID_ARGUMENT, "step %zu", i);
            cr_assert(strstr(error.text, bad_steps[i].word), "step %zu: %s", i, error.text);
            cr_assert_eq(metadata->n_tokens, 0);
        }
        static const uint32_t bad_block_tokens[] = {0, 4, 24, 256};
        struct attention_step empty = {0};
        for (size_t i = 0; i < 4; i++) {
            kv.block_tokens = bad_block_tokens[i];
            cr_assert_eq(backend->metadata_prepare(metadata, &empty, &kv, NULL),
                         STATUS_INVALID_ARGUMENT);
        }
        kv.block_tokens = 16;
        backend->metadata_destroy(metadata);
    }
}

Test(refusal, limits_of_nothing_are_refused)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < 4; i++) {
            struct attention_limits limits = {.n_sequences_max = i != 0,
                                              .n_tokens_max = i != 1,
                                              .kv_len_max = i != 2,
                                              .n_heads = i != 3,
                                              .n_kv_heads = 1,
                                              .head_dim = 8};
            struct attention_metadata *metadata = NULL;
            struct error error = {""};
            cr_assert_eq(list[k]->attention->metadata_create(&limits, NULL, &metadata, &error),
                         STATUS_INVALID_ARGUMENT);
            cr_assert_neq(error.text[0], '\0');
        }
}

Test(refusal, a_dummy_step_writes_zeros_and_no_cache)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    struct attention_limits limits = {.n_sequences_max = 1,
                                      .n_tokens_max = 9,
                                      .kv_len_max = 64,
                                      .n_heads = 4,
                                      .n_kv_heads = 2,
                                      .head_dim = 64};
    struct kv_view kv = kv_view_dense(NULL, 0, 0, 2, 16, 64, DTYPE_F32);
    struct attention_sequence sequence = CONTEXT(9, 9, 9, NULL, 0);
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
        cr_assert_eq(backend->forward(attention, metadata, &io), STATUS_OK);
        for (uint32_t i = 0; i < 9 * 4 * 64; i++)
            cr_assert_eq(output[i], 0);
        backend->metadata_destroy(metadata);
        backend->destroy(attention);
    }
}
