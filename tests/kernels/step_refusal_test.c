/* a step that does not fit its metadata or the cache is refused with a sentence, and changes nothing. */
#include "kernels/kernels.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/support/attention_list.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint32_t BLOCKS[] = {0, 1, 2, 3, 0, 1, 2, 3};
static const uint32_t FAR_BLOCKS[] = {0, 4, 1, 2};
static const uint32_t FAR_SECOND_BEAM[] = {0, 1, 2, 3, 0, 1, 2, 9};
static const uint32_t GOOD_SOURCE[2 * 64] = {0, 1};
static const uint32_t BAD_SOURCE[2 * 8] = {[8 + 2] = 2};
static const uint32_t POSITIONS[] = {5, 40, 6, 7};
static char cache[1]; /* of a step that is only judged: nothing is read or written */
static const uint64_t TREE[] = {1, 3, 5, 9};

struct bad_step {
    const char *word;
    struct attention_limits limits;
    struct attention_sequence sequences[3];
    uint32_t n_sequences; /* 0 is 1 */
    uint32_t padded_query_len, padded_new_len;
    uint32_t n_static, n_static_query; /* n_static_query 0 is 1 */
    bool is_contiguous;
    bool has_rope; /* of 32 positions */
};

#define LIMITS(...)                                                                                \
    {                                                                                              \
        .n_sequences_max = 2, .n_tokens_max = 64, .kv_len_max = 64, .n_heads = 4, .n_kv_heads = 2, \
        .head_dim = 64, __VA_ARGS__                                                                \
    }
#define CONTEXT(query, kv, prompt, ...)                                                            \
    {                                                                                              \
        .phase = PHASE_CONTEXT, .query_len = query, .kv_len = kv, .prompt_len = prompt,            \
        .block_ids = BLOCKS, .n_blocks = 4, __VA_ARGS__                                            \
    }
#define GENERATION(query, kv, ...)                                                                 \
    {                                                                                              \
        .phase = PHASE_GENERATION, .query_len = query, .kv_len = kv, .block_ids = BLOCKS,          \
        .n_blocks = 4, __VA_ARGS__                                                                 \
    }
#define DUMMY(query, kv, ...)                                                                      \
    {                                                                                              \
        .phase = PHASE_GENERATION, .query_len = query, .kv_len = kv, .is_dummy = true, __VA_ARGS__ \
    }
#define DRAFTS LIMITS(.n_draft_max = 3)
#define PLAIN  LIMITS(.n_draft_max = 0)
#define BEAMS  LIMITS(.n_beams_max = 2)
#define CROSS  LIMITS(.keys = KEYS_CROSS, .mask = MASK_BIDIRECTIONAL, .n_kv_tokens_max = 40)
#define SHARD  LIMITS(.keys = KEYS_SHARD, .n_kv_tokens_max = 40)
#define STREAM LIMITS(.window = 16, .sink_tokens = 4)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif
static const struct bad_step bad_steps[] = {
    {"follows a generation", PLAIN, {GENERATION(1, 5), CONTEXT(8, 8, 8)}, 2},
    {"phase is 2", PLAIN, {GENERATION(1, 5, .phase = (enum attention_phase)2)}},
    {"query_len 2, must be 1 .. 1", PLAIN, {GENERATION(2, 5)}},
    {"query_len 0", PLAIN, {GENERATION(0, 5)}},
    {"multiple of 16", PLAIN, {CONTEXT(17, 17, 40)}},
    {"sequence 1, request 0000000000c0ffee: a chunk before the last has 17",
     PLAIN,
     {CONTEXT(16, 16, 16, .request_id = 7), CONTEXT(17, 17, 40, .request_id = 0xc0ffee)},
     2},
    {"prompt_len 16", PLAIN, {CONTEXT(17, 17, 16)}},
    {"kv_len is 16, must be from query_len 17", PLAIN, {CONTEXT(17, 16, 17)}},
    {"kv_len is 65", PLAIN, {GENERATION(1, 65)}},
    {"block_ids is NULL", PLAIN, {GENERATION(1, 5, .block_ids = NULL)}},
    {"needs 3", PLAIN, {CONTEXT(33, 33, 33, .n_blocks = 2)}},
    {"block id is 4", PLAIN, {CONTEXT(17, 17, 17, .block_ids = FAR_BLOCKS)}},
    {"3 sequences", PLAIN, {GENERATION(1, 1), GENERATION(1, 2), GENERATION(1, 3)}, 3},
    {"66 tokens", PLAIN, {CONTEXT(33, 33, 33), CONTEXT(33, 33, 33)}, 2},
    {"2 context sequences, at most 1",
     LIMITS(.n_contexts_max = 1),
     {CONTEXT(8, 8, 8), CONTEXT(8, 8, 8)},
     2},
    {"2 generation sequences, at most 1",
     LIMITS(.n_generations_max = 1),
     {GENERATION(1, 1), GENERATION(1, 2)},
     2},
    {"17 context tokens, at most 16",
     LIMITS(.n_context_tokens_max = 16),
     {CONTEXT(9, 9, 9), CONTEXT(8, 8, 8)},
     2},
    /* fields this kind of layer does not read */
    {"new_len is given (3)", PLAIN, {CONTEXT(8, 8, 8, .new_len = 3)}},
    {"query_index is given (3)", PLAIN, {CONTEXT(8, 8, 8, .query_index = 3)}},
    {"key_index is given (3)", CROSS, {GENERATION(1, 8, .key_index = 3)}},
    {"padded_new_len is 8", PLAIN, {CONTEXT(8, 8, 8)}, .padded_new_len = 8},
    /* padded */
    {"query_len 9 is over padded_query_len 8", PLAIN, {CONTEXT(9, 9, 9)}, .padded_query_len = 8},
    {"new_len 9 is over padded_new_len 8",
     CROSS,
     {CONTEXT(9, 9, 9, .new_len = 9)},
     .padded_new_len = 8},
    {"the number of rows, 6442450944, does not fit in 32 bits",
     PLAIN,
     {GENERATION(1, 1), GENERATION(1, 1)},
     2,
     .padded_query_len = 3u << 30},
    /* beams */
    {"n_beams is 2, at most 1", PLAIN, {GENERATION(1, 8, .n_beams = 2)}},
    {"n_beams is 3, at most 2", BEAMS, {GENERATION(1, 8, .n_beams = 3)}},
    {"n_beams is given (2)", BEAMS, {CONTEXT(8, 8, 8, .n_beams = 2)}},
    {"cache_source is given", BEAMS, {CONTEXT(8, 8, 8, .cache_source = GOOD_SOURCE)}},
    {"cache_source of beam 1, token 2 is 2, there are 2",
     BEAMS,
     {GENERATION(1, 8, .n_beams = 2, .cache_source = BAD_SOURCE, .cache_source_stride = 8)}},
    {"cache_source_stride is 7",
     BEAMS,
     {GENERATION(1, 8, .n_beams = 2, .cache_source = GOOD_SOURCE, .cache_source_stride = 7)}},
    {"block id is 9", BEAMS, {GENERATION(1, 64, .n_beams = 2, .block_ids = FAR_SECOND_BEAM)}},
    {"n_beams 2 with query_len 4",
     LIMITS(.n_beams_max = 2, .n_draft_max = 4),
     {GENERATION(4, 8, .n_beams = 2)}},
    {"new_len is given (1): new keys belong to no beam",
     LIMITS(.n_beams_max = 2, .keys = KEYS_CROSS, .mask = MASK_BIDIRECTIONAL, .n_kv_tokens_max = 9),
     {GENERATION(1, 8, .n_beams = 2, .new_len = 1)}},
    {"66 tokens",
     LIMITS(.n_beams_max = 33),
     {GENERATION(1, 8, .n_beams = 33, .block_ids = GOOD_SOURCE, .n_blocks = 1),
      GENERATION(1, 8, .n_beams = 33, .block_ids = GOOD_SOURCE, .n_blocks = 1)},
     2},
    /* drafts */
    {"query_len 5, must be 1 .. 4", LIMITS(.n_draft_max = 4), {GENERATION(5, 8)}},
    {"draft_mask is given", LIMITS(.n_draft_max = 4), {CONTEXT(4, 4, 4, .draft_mask = TREE)}},
    {"draft_mask is given (1): n_draft_max", PLAIN, {GENERATION(1, 8, .draft_mask = TREE)}},
    {"query_len is 0 of a context", PLAIN, {CONTEXT(0, 4, 4)}},
    {"draft_mask is given",
     LIMITS(.n_draft_max = 4, .keys = KEYS_CROSS, .mask = MASK_BIDIRECTIONAL),
     {GENERATION(4, 8, .draft_mask = TREE)}},
    /* other keys */
    {"kv_len is 8, must be from new_len 9", CROSS, {CONTEXT(4, 8, 4, .new_len = 9)}},
    {"60 new keys, at most 40",
     CROSS,
     {CONTEXT(4, 30, 4, .new_len = 30), CONTEXT(4, 30, 4, .new_len = 30)},
     2},
    {"positions is given", CROSS, {GENERATION(1, 8, .positions = POSITIONS)}},
    {"positions is given", SHARD, {GENERATION(1, 8, .positions = POSITIONS)}},
    {"query_index 4294967295", SHARD, {GENERATION(1, 8, .query_index = UINT32_MAX)}},
    {"key_index 4294967295", SHARD, {GENERATION(1, 8, .key_index = UINT32_MAX)}},
    /* masks, windows, paths, biases */
    {"a chunk has 16 tokens, prompt_len is 32",
     LIMITS(.mask = MASK_BIDIRECTIONAL),
     {CONTEXT(16, 32, 32)}},
    {"a chunk has 16 tokens, prompt_len is 32",
     LIMITS(.mask = MASK_BIDIRECTIONAL),
     {CONTEXT(16, 16, 32)}},
    {"positions is given", STREAM, {GENERATION(1, 8, .positions = POSITIONS)}},
    {"a chunk follows 32 tokens",
     LIMITS(.window = 16, .sink_tokens = 4, .is_cyclic = true),
     {CONTEXT(16, 48, 48)}},
    {"needs 1", LIMITS(.window = 16, .is_cyclic = true), {GENERATION(1, 60, .n_blocks = 0)}},
    {"kv_len is 1025, path PATH_SHORT takes up to 1024",
     LIMITS(.has_short_path = true, .kv_len_max = 2000, .n_tokens_max = 2000),
     {CONTEXT(1025, 1025, 1025)}},
    {"8 queries and 8 keys: bias.table has n_queries 7 and n_keys 9",
     LIMITS(.bias_queries = 7, .bias_keys = 9),
     {GENERATION(1, 8)}},
    {"8 queries and 8 keys: bias.table has n_queries 9 and n_keys 7",
     LIMITS(.bias_queries = 9, .bias_keys = 7),
     {CONTEXT(8, 8, 8)}},
    {"position 40",
     LIMITS(.n_draft_max = 4),
     {GENERATION(4, 8, .positions = POSITIONS)},
     .has_rope = true},
    {"position 32", PLAIN, {GENERATION(1, 33)}, .has_rope = true},
    {"position 32", SHARD, {GENERATION(1, 1, .key_index = 32)}, .has_rope = true},
    /* caches and static steps */
    {"a contiguous row holds 16", PLAIN, {GENERATION(1, 17)}, .is_contiguous = true},
    {"1 sequences, every step of a static metadata has 2",
     PLAIN,
     {GENERATION(1, 5)},
     .n_static = 2},
    {"sequence 1 of a static step: phase 1, query_len 2",
     LIMITS(.n_draft_max = 2),
     {GENERATION(1, 5), GENERATION(2, 5)},
     2,
     .n_static = 2},
    {"sequence 0 of a static step: phase 0", PLAIN, {CONTEXT(1, 1, 1)}, .n_static = 1},
    {"n_beams 2, must be in the generation phase, of query_len 1, without beams",
     BEAMS,
     {GENERATION(1, 5, .n_beams = 2)},
     .n_static = 1},
    {"sequence 0 of a static step: phase 1, query_len 2, n_beams 0, must be in the generation "
     "phase, of query_len 3",
     LIMITS(.n_draft_max = 3),
     {GENERATION(2, 5), GENERATION(3, 5)},
     2,
     .n_static = 2,
     .n_static_query = 3},
    {"sequence 1: is_dummy is 1, the metadata is not static",
     PLAIN,
     {GENERATION(1, 5), DUMMY(1, 1)},
     2},
    {"sequence 1: is_dummy is 0 after a dummy",
     PLAIN,
     {DUMMY(1, 1), GENERATION(1, 5)},
     2,
     .n_static = 2},
    {"sequence 0 of a static step: phase 0",
     PLAIN,
     {DUMMY(1, 1, .phase = PHASE_CONTEXT)},
     .n_static = 1},
    {"sequence 0 of a static step: phase 1, query_len 2", DRAFTS, {DUMMY(2, 2)}, .n_static = 1},
    {"kv_len is 2 of a dummy sequence, must be query_len 1", PLAIN, {DUMMY(1, 2)}, .n_static = 1},
    {"kv_len is 1 of a dummy sequence, must be new_len 0", CROSS, {DUMMY(1, 1)}, .n_static = 1},
    {"new_len is given (1): a dummy", CROSS, {DUMMY(1, 1, .new_len = 1)}, .n_static = 1},
    {"n_blocks is given (4): a dummy", PLAIN, {DUMMY(1, 1, .n_blocks = 4)}, .n_static = 1},
    {"block_ids is given (1): a dummy", PLAIN, {DUMMY(1, 1, .block_ids = BLOCKS)}, .n_static = 1},
    {"positions is given (1): a dummy",
     PLAIN,
     {DUMMY(1, 1, .positions = POSITIONS)},
     .n_static = 1},
    {"draft_mask is given (1): a dummy", PLAIN, {DUMMY(1, 1, .draft_mask = TREE)}, .n_static = 1},
    {"cache_source is given (1): a dummy",
     PLAIN,
     {DUMMY(1, 1, .cache_source = GOOD_SOURCE)},
     .n_static = 1},
};

static const struct bad_limits {
    const char *word;
    struct attention_limits limits;
} bad_limits[] = {
    {"n_sequences_max 0", LIMITS(.n_sequences_max = 0)},
    {"n_tokens_max 0", LIMITS(.n_tokens_max = 0)},
    {"kv_len_max 0", LIMITS(.kv_len_max = 0)},
    {"n_contexts_max is 3, n_sequences_max is 2", LIMITS(.n_contexts_max = 3)},
    {"n_generations_max is 3, n_sequences_max is 2", LIMITS(.n_generations_max = 3)},
    {"n_context_tokens_max is 65, n_tokens_max is 64", LIMITS(.n_context_tokens_max = 65)},
    {"n_heads 0", LIMITS(.n_heads = 0)},
    {"head_dim is 12", LIMITS(.head_dim = 12)},
    {"n_kv_tokens_max is 3", LIMITS(.n_kv_tokens_max = 3)},
    {"is_cyclic with window 0", LIMITS(.is_cyclic = true)},
    {"sink_tokens is 16, must be under the window, 16", LIMITS(.window = 16, .sink_tokens = 16)},
    {"sink_tokens 4 with n_draft_max 2", LIMITS(.window = 16, .sink_tokens = 4, .n_draft_max = 2)},
    {"must be KEYS_SELF", LIMITS(.window = 16, .is_cyclic = true, .keys = KEYS_SHARD)},
    {"n_beams_max 2", LIMITS(.window = 16, .is_cyclic = true, .n_beams_max = 2)},
    {"n_draft_max 2", LIMITS(.window = 16, .is_cyclic = true, .n_draft_max = 2)},
    {"n_draft_max is 65", LIMITS(.n_draft_max = 65)},
    {"cache dtype is 5", LIMITS(.cache = DTYPE_E2M1)},
    {"cache dtype is 4294967295", LIMITS(.cache = (enum dtype) - 1)},
    {"keys is 3", LIMITS(.keys = (enum attention_keys)3)},
    {"mask is 3", LIMITS(.mask = (enum attention_mask)3)},
};
#pragma GCC diagnostic pop

static struct rope *make_rope(void)
{
    struct rope_config config = {.head_dim = 64, .positions_max = 32, .theta = 10000};
    struct rope *rope = NULL;
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    return rope;
}

static void assert_step_refused(const struct attention_backend *backend, const struct bad_step *bad,
                                size_t index)
{
    struct attention_limits limits = bad->limits;
    struct attention_metadata *metadata = NULL;
    struct error error = {""};
    struct rope *rope = bad->has_rope ? make_rope() : NULL;
    struct kv_view kv = kv_view_dense(cache, 4, 1, 2, 16, 64, DTYPE_F32);
    struct attention_step step = {.sequences = bad->sequences,
                                  .n_sequences = bad->n_sequences ? bad->n_sequences : 1,
                                  .padded_query_len = bad->padded_query_len,
                                  .padded_new_len = bad->padded_new_len};
    kv.is_contiguous = bad->is_contiguous;
    limits.ropes[0] = rope;
    cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, &error), STATUS_OK,
                 "step %zu: %s", index, error.text);
    if (bad->n_static)
        cr_assert_eq(backend->metadata_make_static(metadata, bad->n_static,
                                                   bad->n_static_query ? bad->n_static_query : 1,
                                                   NULL),
                     STATUS_OK);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, &error), STATUS_INVALID_ARGUMENT,
                 "step %zu: %s", index, bad->word);
    cr_assert(strstr(error.text, bad->word), "step %zu: %s", index, error.text);
    cr_assert_eq(metadata->n_tokens, 0);
    cr_assert_eq(metadata->n_sequences, 0);
    backend->metadata_destroy(metadata);
    rope_destroy(rope);
}

Test(step_refusal, a_step_out_of_order_or_bounds_is_refused_and_changes_nothing)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof bad_steps / sizeof bad_steps[0]; i++)
            assert_step_refused(list[k]->attention, &bad_steps[i], i);
}

Test(step_refusal, limits_out_of_range_are_refused)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof bad_limits / sizeof bad_limits[0]; i++) {
            struct attention_metadata *metadata = NULL;
            struct error error = {""};
            cr_assert_eq(
                list[k]->attention->metadata_create(&bad_limits[i].limits, NULL, &metadata, &error),
                STATUS_INVALID_ARGUMENT, "limits %zu", i);
            cr_assert(strstr(error.text, bad_limits[i].word), "limits %zu: %s", i, error.text);
            cr_assert_null(metadata);
        }
}

Test(step_refusal, a_block_size_that_is_no_power_of_two_in_range_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    static const uint32_t bad_block_tokens[] = {0, 4, 24, 256};
    struct attention_limits limits = PLAIN;
    struct attention_step empty = {0};
    for (uint32_t k = 0; k < n; k++) {
        struct attention_metadata *metadata;
        struct kv_view kv = kv_view_dense(cache, 4, 1, 2, 16, 64, DTYPE_F32);
        cr_assert_eq(list[k]->attention->metadata_create(&limits, NULL, &metadata, NULL),
                     STATUS_OK);
        for (size_t i = 0; i < 4; i++) {
            kv.block_tokens = bad_block_tokens[i];
            cr_assert_eq(list[k]->attention->metadata_prepare(metadata, &empty, &kv, NULL),
                         STATUS_INVALID_ARGUMENT);
        }
        list[k]->attention->metadata_destroy(metadata);
    }
}

/* The metadata of a group with that cache dtype. */
static struct attention_metadata *metadata_of(enum dtype dtype)
{
    struct attention_limits limits = PLAIN;
    struct attention_metadata *metadata = NULL;
    limits.cache = dtype;
    cr_assert_eq(reference_attention.metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
    return metadata;
}

static void assert_view_refused(struct attention_metadata *metadata, const struct kv_view *kv,
                                const char *word)
{
    static const struct attention_step empty = {0};
    struct error error = {""};
    cr_assert_eq(reference_attention.metadata_prepare(metadata, &empty, kv, &error),
                 STATUS_INVALID_ARGUMENT, "%s", word);
    cr_assert(strstr(error.text, word), "%s: %s", word, error.text);
}

static void assert_view_taken(struct attention_metadata *metadata, const struct kv_view *kv)
{
    static const struct attention_step empty = {0};
    struct error error = {""};
    cr_assert_eq(reference_attention.metadata_prepare(metadata, &empty, kv, &error), STATUS_OK,
                 "%s", error.text);
}

Test(step_refusal, a_cache_whose_strides_overlap_is_refused_by_name)
{
    const struct kv_view good = kv_view_dense(cache, 4, 2, 2, 16, 64, DTYPE_INT8);
    struct kv_view views[] = {good, good, good, good, good, good};
    static const char *const words[] = {"kv.token_stride 63",      "kv.head_stride 0",
                                        "kv.kv_stride is 0",       "kv.layer_stride is 2048",
                                        "kv.block_stride is 4096", "kv.layer_stride is 0"};
    views[0].token_stride = 63;
    views[1].head_stride = 0;
    views[2].kv_stride = 0;
    views[3].layer_stride = 2048;
    views[4].block_stride = 4096;
    views[5].layer_stride = 0;
    struct attention_metadata *metadata = metadata_of(DTYPE_INT8);
    assert_view_taken(metadata, &good);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        assert_view_refused(metadata, &views[i], words[i]);
    views[5].n_layers = 1;
    assert_view_taken(metadata, &views[5]);
    reference_attention.metadata_destroy(metadata);
}

/* A view without gaps of one dtype has rows that overlap in a wider one. */
Test(step_refusal, strides_are_judged_in_elements_of_the_cache)
{
    for (enum dtype of_layer = DTYPE_F32; of_layer <= DTYPE_E4M3; of_layer++)
        for (enum dtype of_view = DTYPE_F32; of_view <= DTYPE_E4M3; of_view++) {
            const struct kv_view kv = kv_view_dense(cache, 4, 2, 2, 16, 64, of_view);
            struct attention_metadata *metadata = metadata_of(of_layer);
            if (dtype_bytes(of_view) >= dtype_bytes(of_layer))
                assert_view_taken(metadata, &kv);
            else
                assert_view_refused(metadata, &kv, "overlap");
            reference_attention.metadata_destroy(metadata);
        }
}

Test(step_refusal, a_view_that_ends_over_64_bits_is_refused_by_name)
{
    const struct kv_view good = kv_view_dense(cache, 4, 2, 2, 16, 64, DTYPE_F32);
    struct kv_view views[] = {good, good, good, good, good, good, good};
    static const char *const words[] = {"kv.base is NULL",
                                        "kv.token_stride 1229782938247303442",
                                        "kv.head_stride 18446744073709551615",
                                        "kv.kv_stride is 184",
                                        "kv.layer_stride is 184",
                                        "kv.block_stride is 6148914691236517206",
                                        "kv.base is 0xffff"};
    views[0].base = NULL;
    views[1].token_stride = UINT64_MAX / 15 + 1; /* times 15: 14 */
    views[2].head_stride = UINT64_MAX;
    views[3].kv_stride = UINT64_MAX - 100;
    views[4].layer_stride = UINT64_MAX - 100;
    views[5].block_stride = UINT64_MAX / 3 + 1; /* times 3: 2 */
    views[6].base = (void *)(UINTPTR_MAX - 100);
    struct attention_metadata *metadata = metadata_of(DTYPE_F32);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        assert_view_refused(metadata, &views[i], words[i]);
    reference_attention.metadata_destroy(metadata);
}

Test(step_refusal, a_list_of_sequences_or_ropes_with_a_hole_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    const struct kv_view kv = kv_view_dense(cache, 4, 1, 2, 16, 64, DTYPE_F32);
    const struct attention_step step = {.n_sequences = 2};
    struct attention_limits limits = PLAIN, holed = PLAIN;
    struct rope *rope = make_rope();
    holed.ropes[1] = rope;
    for (uint32_t k = 0; k < n; k++) {
        const struct attention_backend *backend = list[k]->attention;
        struct attention_metadata *metadata = NULL;
        struct error error = {""};
        cr_assert_eq(backend->metadata_create(&holed, NULL, &metadata, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, "ropes[1] is set, ropes[0] is NULL"), "%s", error.text);
        cr_assert_null(metadata);
        cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
        cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, "sequences is NULL, n_sequences is 2"), "%s", error.text);
        backend->metadata_destroy(metadata);
    }
    rope_destroy(rope);
}

Test(step_refusal, a_metadata_becomes_static_once_and_within_its_limits)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    static const struct {
        uint32_t n_generations, n_query;
        const char *word;
    } bad[] = {
        {0, 1, "n_generations is 0"},
        {3, 1, "n_generations is 3, must be from 1 to n_generations_max 2"},
        {1, 0, "n_query is 0, must be from 1 to n_draft_max 4"},
        {1, 5, "n_query is 5, must be from 1 to n_draft_max 4"},
        {2, 4, "with n_query 4 at most n_tokens_max 7 tokens"},
    };
    struct attention_limits limits = LIMITS(.n_draft_max = 4);
    limits.n_tokens_max = 7;
    for (uint32_t k = 0; k < n; k++) {
        const struct attention_backend *backend = list[k]->attention;
        struct attention_metadata *metadata;
        struct error error = {""};
        cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            cr_assert_eq(backend->metadata_make_static(metadata, bad[i].n_generations,
                                                       bad[i].n_query, &error),
                         STATUS_INVALID_ARGUMENT);
            cr_assert(strstr(error.text, bad[i].word), "%s", error.text);
        }
        cr_assert_eq(backend->metadata_make_static(metadata, 2, 3, &error), STATUS_OK);
        cr_assert_eq(backend->metadata_make_static(metadata, 1, 1, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, "is static already, with 2"), "%s", error.text);
        backend->metadata_destroy(metadata);
    }
}
