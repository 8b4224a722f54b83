/* a step filled up with dummies, of one token or of drafts: no bit of its sequences changes, and no byte of the cache. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/layer.h"
#include "tests/kernels/support/plain_backend.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROMPT = 20,
    N_STATIC = 4,
    N_STEPS = 5,
    WIDTH = LAYER_HEADS * LAYER_DIM,
    KV_WIDTH = LAYER_KV_HEADS * LAYER_DIM
};

static const float SINKS[LAYER_HEADS] = {0.5f, -1, 2, 0};
static float qkv_bias[WIDTH + 2 * KV_WIDTH];
static float norm[LAYER_DIM];

/* Features whose loops a row without keys could disturb. */
static const struct layer_kind {
    const char *name;
    struct attention_config config;
    uint32_t n_query;
    bool is_turned, is_contiguous;
} KINDS[] = {
    {"plain", {.layer_index = 0}, 1, false, false},
    {"rope", {.layer_index = 0}, 1, true, false},
    {"contiguous", {.layer_index = 0}, 1, true, true},
    {"drafts", {.n_draft_max = 3}, 3, true, false},
    {"window", {.window = 16}, 1, true, false},
    {"cyclic", {.window = 16, .is_cyclic = true}, 1, true, false},
    {"streaming", {.window = 16, .sink_tokens = 4}, 1, true, false},
    {"sinks", {.sinks = SINKS}, 1, true, false},
    {"alibi", {.bias = {.alibi_scale = 1}}, 1, false, false},
    {"bias and norm",
     {.qkv_bias = qkv_bias, .q_norm = norm, .k_norm = norm, .norm_eps = 1e-6f},
     1,
     true,
     false},
    {"int8", {.cache = DTYPE_INT8, .k_scale = 0.03f, .v_scale = 0.03f}, 1, true, false},
    {"e4m3 out", {.output_scale = 0.01f}, 1, true, false},
    {"split", {.multi_block = CHOICE_ON}, 1, true, false},
    {"heads alone", {.grouped = CHOICE_OFF}, 1, true, false},
};

static struct rope *rope;

static void make_values(void)
{
    struct rope_config config = {.head_dim = LAYER_DIM, .positions_max = 256, .theta = 100};
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    for (uint32_t i = 0; i < WIDTH + 2 * KV_WIDTH; i++)
        qkv_bias[i] = layer_q(77, i);
    for (uint32_t i = 0; i < LAYER_DIM; i++)
        norm[i] = 1 + 0.1f * layer_k(78, i);
}

static void free_values(void)
{
    rope_destroy(rope);
}

TestSuite(static_step, .init = make_values, .fini = free_values);

static struct layer open_kind(const struct attention_backend *backend,
                              const struct layer_kind *kind)
{
    struct attention_config config = kind->config;
    config.rope = kind->is_turned ? rope : NULL;
    return layer_open(backend, config, kind->is_contiguous);
}

/* n sequences behind kv_len tokens each, then dummies. Returns how many there are. */
static uint32_t lay_out(const struct layer_kind *kind, enum attention_phase phase, uint32_t n,
                        uint32_t kv_len, uint32_t n_static,
                        struct attention_sequence sequences[N_STATIC])
{
    static const uint32_t BLOCKS[N_STATIC][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                                 {8, 9, 10, 11, 12, 13, 14, 15},
                                                 {16, 17, 18, 19, 20, 21, 22, 23},
                                                 {24, 25, 26, 27, 28, 29, 30, 31}};
    uint32_t query_len = phase == PHASE_CONTEXT ? PROMPT : kind->n_query;
    for (uint32_t s = 0; s < n; s++)
        sequences[s] = (struct attention_sequence){.phase = phase,
                                                   .query_len = query_len,
                                                   .kv_len = kv_len + query_len,
                                                   .prompt_len = PROMPT,
                                                   .block_ids = BLOCKS[s],
                                                   .n_blocks = kind->is_contiguous ? 1 : 8};
    for (uint32_t s = n; s < n_static; s++)
        sequences[s] = (struct attention_sequence){
            .phase = phase, .query_len = query_len, .kv_len = query_len, .is_dummy = true};
    return n < n_static ? n_static : n;
}

static void run_step(struct layer *layer, const struct layer_kind *kind, enum attention_phase phase,
                     uint32_t n, uint32_t kv_len, uint32_t n_static, struct layer_rows *rows_out)
{
    struct attention_sequence sequences[N_STATIC];
    uint32_t tokens[N_STATIC * PROMPT];
    struct attention_step step = {
        .sequences = sequences,
        .n_sequences = lay_out(kind, phase, n, kv_len, n_static, sequences)};
    for (uint32_t i = 0; i < N_STATIC * PROMPT; i++)
        tokens[i] = 100 * kv_len + i;
    layer_step(layer, &step, tokens, NULL, rows_out);
}

static void assert_rows(const struct layer_rows *got, const struct layer_rows *expected,
                        uint32_t n_real, uint32_t n_all, const char *what)
{
    static const float ZEROS[WIDTH];
    cr_assert_arr_eq(got->output, expected->output, n_real * sizeof got->output[0], "%s", what);
    cr_assert_arr_eq(got->lse, expected->lse, n_real * sizeof got->lse[0], "%s", what);
    for (uint32_t row = n_real; row < n_all; row++) {
        cr_assert_arr_eq(got->output[row], ZEROS, sizeof ZEROS, "%s: row %u", what, row);
        for (uint32_t h = 0; h < LAYER_HEADS; h++)
            cr_assert_eq(got->lse[row][h], -INFINITY, "%s: row %u", what, row);
    }
}

/* n of N_STATIC are sequences; the same steps without dummies beside it. */
static void check_kind(const struct attention_backend *backend, const struct layer_kind *kind,
                       uint32_t n)
{
    static struct layer_rows rows, expected;
    struct layer filled = open_kind(backend, kind), plain = open_kind(backend, kind);
    size_t arena_bytes = backend->metadata_arena_bytes(filled.metadata);
    filled.arenas = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, 2 * arena_bytes);
    cr_assert(filled.arenas);
    run_step(&filled, kind, PHASE_CONTEXT, n, 0, 0, &rows);
    run_step(&plain, kind, PHASE_CONTEXT, n, 0, 0, &expected);
    assert_rows(&rows, &expected, n * PROMPT, n * PROMPT, kind->name);
    cr_assert_eq(backend->metadata_make_static(filled.metadata, N_STATIC, kind->n_query, NULL),
                 STATUS_OK);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        uint32_t kv_len = PROMPT + i * kind->n_query;
        run_step(&filled, kind, PHASE_GENERATION, n, kv_len, N_STATIC, &rows);
        run_step(&plain, kind, PHASE_GENERATION, n, kv_len, 0, &expected);
        cr_assert_eq(filled.metadata->n_dummies, N_STATIC - n);
        assert_rows(&rows, &expected, n * kind->n_query, N_STATIC * kind->n_query, kind->name);
        cr_assert_eq(memcmp(filled.kv.base, plain.kv.base, LAYER_BLOCKS * plain.kv.block_stride), 0,
                     "%s: the cache of %u of %u", kind->name, n, (uint32_t)N_STATIC);
    }
    layer_close(&filled);
    layer_close(&plain);
    free(filled.arenas);
}

Test(static_step, dummies_change_no_bit_and_no_cache)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = attention_list(list);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
            for (uint32_t n = 0; n <= N_STATIC; n++)
                check_kind(list[k]->attention, &KINDS[i], n);
    for (uint32_t n = 0; n <= N_STATIC; n++)
        check_kind(&plain_attention, &KINDS[0], n);
}

/* ---- arenas ---- */

static struct attention_metadata *new_metadata(const struct attention_backend *backend,
                                               uint32_t n_sequences, uint32_t n_tokens,
                                               enum attention_keys keys)
{
    struct attention_metadata *metadata;
    struct error error = {""};
    struct attention_limits limits = {.n_sequences_max = n_sequences,
                                      .n_tokens_max = n_tokens,
                                      .n_kv_tokens_max = keys == KEYS_SELF ? 0 : 9,
                                      .kv_len_max = 64,
                                      .n_heads = 2,
                                      .n_kv_heads = 1,
                                      .head_dim = LAYER_DIM,
                                      .keys = keys,
                                      .ropes = {rope}};
    cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, &error), STATUS_OK, "%s",
                 error.text);
    return metadata;
}

enum { N_ARRAYS = 14 };

static void list_arrays(const struct attention_metadata *metadata, const void *arrays[N_ARRAYS])
{
    const void *all[N_ARRAYS] = {
        metadata->sequences,    metadata->token_starts, metadata->token_sequences,
        metadata->token_rows,   metadata->indices,      metadata->kv_starts,
        metadata->kv_sequences, metadata->kv_rows,      metadata->kv_indices,
        metadata->kv_beams,     metadata->positions,    metadata->q_cos[0],
        metadata->q_sin[0],     metadata->k_sin[0]};
    memcpy(arrays, all, sizeof all);
}

static void check_offsets(const struct attention_backend *backend, enum attention_keys keys)
{
    struct attention_metadata *first = new_metadata(backend, 3, 17, keys);
    struct attention_metadata *second = new_metadata(backend, 3, 17, keys);
    const void *own[N_ARRAYS], *moved[N_ARRAYS];
    size_t bytes = backend->metadata_arena_bytes(first);
    cr_assert_eq(backend->metadata_arena_bytes(second), bytes);
    uint8_t *base = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, bytes);
    list_arrays(first, own);
    const uint8_t *own_base = first->arena;
    backend->metadata_use_arena(second, base);
    list_arrays(second, moved);
    for (size_t i = 0; i < N_ARRAYS; i++) {
        size_t offset = (size_t)((const uint8_t *)moved[i] - base);
        cr_assert_lt(offset, bytes);
        cr_assert_eq(offset % ATTENTION_ARENA_ALIGNMENT, 0);
        cr_assert_eq((size_t)((const uint8_t *)own[i] - own_base), offset, "array %zu", i);
    }
    backend->metadata_destroy(first);
    backend->metadata_destroy(second);
    free(base);
}

Test(static_step, arrays_lie_where_the_limits_say)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = attention_list(list);
    for (uint32_t k = 0; k < n_list; k++) {
        check_offsets(list[k]->attention, KEYS_SELF);
        check_offsets(list[k]->attention, KEYS_SHARD);
        struct attention_metadata *bucket = new_metadata(list[k]->attention, 1, 1, KEYS_SELF);
        struct attention_metadata *large = new_metadata(list[k]->attention, 3, 64, KEYS_SELF);
        cr_assert_lt(list[k]->attention->metadata_arena_bytes(bucket),
                     list[k]->attention->metadata_arena_bytes(large) / 2,
                     "a bucket's step is as small as it is");
        list[k]->attention->metadata_destroy(bucket);
        list[k]->attention->metadata_destroy(large);
    }
}
