/* multi_block CHOICE_ON splits every generation row that has keys in two ranges, however many rows a step
 * has and whatever its contexts split; CHOICE_OFF splits none of them. */
#include "base/thread_pool.h"
#include "kernels/attention_backends.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ISA_NAME scalar
#include "kernels/cpu/attention/plan.h"

enum {
    HEADS = 8,
    DIM = 8,
    WIDTH = HEADS * DIM,
    LEN = 2 * RANGE_KEYS + 1, /* three ranges */
    N_GENERATIONS = 2 * SPLIT_ROWS_MAX / HEADS,
    N_TOKENS = LEN + N_GENERATIONS,
    N_SEQUENCES = 1 + N_GENERATIONS,
};

static const struct attention_limits LIMITS = {.n_sequences_max = N_SEQUENCES,
                                               .n_tokens_max = N_TOKENS,
                                               .kv_len_max = LEN,
                                               .n_heads = HEADS,
                                               .n_kv_heads = HEADS,
                                               .head_dim = DIM,
                                               .has_multi_block = true};

/* A prompt that alone takes what blocks share, then the generation sequences. All have LEN keys, in a
 * row of the cache of their own. */
static void set_sequences(uint32_t *rows, struct attention_sequence *sequences)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        rows[s] = s;
        sequences[s] = (struct attention_sequence){.phase = PHASE_GENERATION,
                                                   .query_len = 1,
                                                   .kv_len = LEN,
                                                   .block_ids = &rows[s],
                                                   .n_blocks = 1};
    }
    sequences[0].phase = PHASE_CONTEXT;
    sequences[0].query_len = sequences[0].prompt_len = LEN;
}

/* Split generation blocks of the step just computed. */
static uint32_t n_split(const struct attention_metadata *metadata, uint32_t *n_blocks_out)
{
    const struct row_block *blocks = metadata->workspace->blocks;
    uint32_t n = 0;
    *n_blocks_out = 0;
    for (uint32_t b = 0; b < metadata->workspace->n_blocks_max && blocks[b].n_rows > 0; b++)
        if (metadata->sequences[blocks[b].sequence].phase == PHASE_GENERATION) {
            n += blocks[b].is_split;
            ++*n_blocks_out;
        }
    return n;
}

struct ran {
    float output[N_TOKENS * WIDTH];
    uint32_t n_split, n_blocks;
};

static void run(enum attention_choice choice, struct thread_pool *pool, char *cache,
                struct ran *ran_out)
{
    static float qkv[N_TOKENS * 3 * WIDTH];
    static struct attention_sequence sequences[N_SEQUENCES];
    static uint32_t rows[N_SEQUENCES];
    const struct attention_backend *backend;
    const struct attention_config config = {
        .n_heads = HEADS, .n_kv_heads = HEADS, .head_dim = DIM, .multi_block = choice};
    struct attention *attention;
    struct attention_metadata *metadata;
    struct kv_view kv = kv_view_contiguous(cache, N_SEQUENCES, HEADS, LEN, DIM, DTYPE_F32);
    for (size_t i = 0; i < sizeof qkv / sizeof qkv[0]; i++)
        qkv[i] = values_at(3, 1, i);
    set_sequences(rows, sequences);
    const struct attention_step step = {.sequences = sequences, .n_sequences = N_SEQUENCES};
    struct attention_io io = attention_io_fused(&config, qkv, 3 * WIDTH, ran_out->output, WIDTH);
    cr_assert_eq(attention_backend_select("scalar", NULL, &backend, NULL), STATUS_OK);
    cr_assert_eq(backend->create(&config, pool, &attention, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&LIMITS, pool, &metadata, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, NULL), STATUS_OK);
    cr_assert_eq(backend->forward(attention, metadata, &io, NULL), STATUS_OK);
    ran_out->n_split = n_split(metadata, &ran_out->n_blocks);
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
}

Test(multi_block, on_splits_every_generation_row_and_off_none)
{
    static struct ran on, off, automatic;
    const size_t n = (size_t)N_SEQUENCES * 2 * HEADS * LEN * DIM;
    float *cache = malloc(n * sizeof *cache);
    struct thread_pool *pool;
    cr_assert_not_null(cache);
    for (size_t i = 0; i < n; i++)
        cache[i] = values_at(3, 0, i);
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    run(CHOICE_ON, pool, (char *)cache, &on);
    run(CHOICE_OFF, pool, (char *)cache, &off);
    run(CHOICE_AUTO, pool, (char *)cache, &automatic);
    cr_assert_eq(on.n_blocks, N_GENERATIONS * HEADS);
    cr_assert_eq(on.n_split, on.n_blocks, "%u of %u are split", on.n_split, on.n_blocks);
    cr_assert_eq(off.n_split, 0);
    cr_assert_lt(automatic.n_split, automatic.n_blocks, "there are enough rows for all threads");
    cr_assert_arr_eq(on.output, off.output, sizeof on.output);
    cr_assert_arr_eq(automatic.output, off.output, sizeof off.output);
    thread_pool_destroy(pool);
    free(cache);
}

Test(multi_block, more_parts_than_are_counted_are_refused)
{
    struct attention_limits limits = LIMITS;
    struct attention_metadata *metadata = NULL;
    const struct attention_backend *backend;
    struct error error = {""};
    limits.kv_len_max = limits.n_tokens_max = UINT32_MAX / 64;
    limits.n_sequences_max = 1;
    limits.n_draft_max = DRAFT_TOKENS_MAX;
    limits.n_tokens_max = DRAFT_TOKENS_MAX;
    limits.n_heads = limits.n_kv_heads = 1 << 10;
    cr_assert_eq(attention_backend_select("scalar", NULL, &backend, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "has_multi_block 1"), "%s", error.text);
    cr_assert_null(metadata);
}
