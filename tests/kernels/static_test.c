/* a step filled up with dummies, of one token or of drafts: no bit of its sequences changes, and no byte of the cache. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/plain_backend.h"
#include "tests/kernels/support/static_step.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { N_STEPS = 5 };

TestSuite(static_step, .init = static_step_begin, .fini = static_step_end,
          .description = ONE_THREAD);

/* n of STATIC_SEQUENCES are sequences; the same steps without dummies beside it. */
static void check_kind(const struct attention_backend *backend, const struct static_kind *kind,
                       uint32_t n)
{
    static struct layer_rows rows, expected;
    const struct attention_config config = static_config(kind);
    struct layer filled = layer_open(backend, config, kind->is_contiguous);
    struct layer plain = layer_open(backend, config, kind->is_contiguous);
    size_t arena_bytes = backend->metadata_arena_bytes(filled.metadata);
    filled.arenas = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, 2 * arena_bytes);
    cr_assert(filled.arenas);
    static_step_run(&filled, kind, PHASE_CONTEXT, n, 0, 0, &rows);
    static_step_run(&plain, kind, PHASE_CONTEXT, n, 0, 0, &expected);
    static_step_assert_rows(&rows, &expected, n * STATIC_PROMPT, n * STATIC_PROMPT, kind->name);
    cr_assert_eq(
        backend->metadata_make_static(filled.metadata, STATIC_SEQUENCES, kind->n_query, NULL),
        STATUS_OK);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        uint32_t kv_len = STATIC_PROMPT + i * kind->n_query;
        static_step_run(&filled, kind, PHASE_GENERATION, n, kv_len, STATIC_SEQUENCES, &rows);
        static_step_run(&plain, kind, PHASE_GENERATION, n, kv_len, 0, &expected);
        cr_assert_eq(filled.metadata->n_dummies, STATIC_SEQUENCES - n);
        static_step_assert_rows(&rows, &expected, n * kind->n_query,
                                STATIC_SEQUENCES * kind->n_query, kind->name);
        static_step_assert_caches(&filled, &plain, kind->name, n);
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
        for (size_t i = 0; i < STATIC_KINDS; i++)
            for (uint32_t n = 0; n <= STATIC_SEQUENCES; n++)
                check_kind(list[k]->attention, &static_kinds[i], n);
    for (uint32_t n = 0; n <= STATIC_SEQUENCES; n++)
        check_kind(&plain_attention, &static_kinds[0], n);
}

/* ---- arenas ---- */

static struct attention_metadata *new_metadata(const struct attention_backend *backend,
                                               uint32_t n_sequences, uint32_t n_tokens,
                                               enum attention_keys keys)
{
    struct attention_metadata *metadata;
    struct error error = {""};
    const struct attention_config config = static_config(&static_kinds[1]);
    struct attention_limits limits = {.n_sequences_max = n_sequences,
                                      .n_tokens_max = n_tokens,
                                      .n_kv_tokens_max = keys == KEYS_SELF ? 0 : 9,
                                      .kv_len_max = 64,
                                      .n_heads = 2,
                                      .n_kv_heads = 1,
                                      .head_dim = LAYER_DIM,
                                      .keys = keys,
                                      .ropes = {config.rope}};
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
