/* context_parallel: ranks that are threads, each with a part of the keys, give what one process does. */
#include "kernels/context_threads.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS = 3,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 32,
    SLOTS = 96, /* of a rank */
    N_LAYERS = 2,
    TOKENS_MAX = RANKS * SLOTS,
    COLUMNS = (HEADS + 2 * KV_HEADS) * DIM,
    WIDTH = HEADS * DIM,
};

struct rank {
    struct context_threads *threads;
    uint32_t n_shifts_left; /* then this rank ends the group */
    struct context_group carrier;
    uint32_t rank;
    const struct attention_backend *backend;
    const uint32_t *lens;
    uint32_t window;
    const float *sinks;
    float (*output)[WIDTH]; /* of all tokens: this rank writes its own */
    float (*lse)[HEADS];
    struct rope *rope;
    enum status status;
};

/* The carrier between threads, which breaks after some shifts. */
static enum status shift(void *arg, const void *send, void *receive, size_t bytes)
{
    struct rank *rank = arg;
    if (rank->n_shifts_left-- == 0)
        context_threads_end(rank->threads, STATUS_PEER_LOST);
    return rank->carrier.shift(rank->carrier.arg, send, receive, bytes);
}

static float (*new_qkv(uint32_t first, uint32_t n))[COLUMNS]
{
    float(*qkv)[COLUMNS] = malloc((n + 1) * sizeof *qkv);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < COLUMNS; c++)
            qkv[i][c] = values_at(3, first + i, c);
    return qkv;
}

static struct attention_config config_of(const struct rank *rank, uint32_t layer_index)
{
    return (struct attention_config){.layer_index = layer_index,
                                     .n_heads = HEADS,
                                     .n_kv_heads = KV_HEADS,
                                     .head_dim = DIM,
                                     .keys = KEYS_SHARD,
                                     .window = rank->window,
                                     .rope = rank->rope};
}

static struct attention_limits limits_of(const struct rank *rank)
{
    return (struct attention_limits){.n_sequences_max = 1,
                                     .n_tokens_max = SLOTS,
                                     .n_kv_tokens_max = SLOTS,
                                     .kv_len_max = SLOTS,
                                     .n_heads = HEADS,
                                     .n_kv_heads = KV_HEADS,
                                     .head_dim = DIM,
                                     .keys = KEYS_SHARD,
                                     .ropes = {rank->rope}};
}

/* Contiguous shards of both layers, NaN at first. */
static struct kv_view new_shards(void)
{
    struct kv_view view = kv_view_contiguous(NULL, 1, KV_HEADS, SLOTS, DIM, DTYPE_F32);
    view.n_layers = N_LAYERS;
    view.layer_stride = 2 * view.kv_stride;
    view.block_stride = N_LAYERS * view.layer_stride;
    view.base = malloc(view.block_stride);
    memset(view.base, 0xff, view.block_stride);
    return view;
}

static uint32_t first_token(const uint32_t *lens, uint32_t rank)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < rank; i++)
        first += lens[i];
    return first;
}

static void *run_ring(void *arg)
{
    struct rank *rank = arg;
    const struct context_group group = {rank->rank, RANKS, rank, shift, NULL};
    const struct attention_limits limits = limits_of(rank);
    const uint32_t first = first_token(rank->lens, rank->rank), n = rank->lens[rank->rank];
    struct kv_view shards = new_shards();
    struct context_ring *ring = NULL;
    rank->status = context_ring_create(rank->backend, &limits, &group, NULL, &ring, NULL);
    if (rank->status == STATUS_OK)
        rank->status = context_ring_prepare(ring, rank->lens, &shards, NULL);
    for (uint32_t layer = 0; layer < N_LAYERS && rank->status == STATUS_OK; layer++) {
        const struct attention_config config = config_of(rank, layer);
        struct attention *attention = NULL;
        rank->status = context_ring_create_layer(ring, &config, NULL, &attention, NULL);
        float(*qkv)[COLUMNS] = new_qkv(first, n);
        struct attention_io io = attention_io_fused(&config, qkv, COLUMNS, rank->output[first],
                                                    WIDTH);
        io.lse = rank->lse[first];
        if (rank->status == STATUS_OK)
            rank->status = context_ring_forward(ring, attention, layer, rank->sinks, &io, NULL);
        rank->backend->destroy(attention);
        free(qkv);
    }
    context_ring_destroy(ring);
    free(shards.base);
    return NULL;
}

/* A decode step: the last token's query on every rank, whose shards hold the keys. */
static void *run_gather(void *arg)
{
    struct rank *rank = arg;
    static const uint32_t only_block = 0;
    const struct context_group group = rank->carrier;
    const struct attention_limits limits = limits_of(rank);
    const struct attention_config config = config_of(rank, 0);
    const uint32_t first = first_token(rank->lens, rank->rank), n = rank->lens[rank->rank];
    const uint32_t last = first_token(rank->lens, RANKS) - 1;
    struct kv_view shards = new_shards();
    struct attention *attention = NULL;
    struct attention_metadata *metadata = NULL;
    rank->status = rank->backend->create(&config, NULL, &attention, NULL);
    if (rank->status == STATUS_OK)
        rank->status = rank->backend->metadata_create(&limits, NULL, &metadata, NULL);
    const struct attention_sequence sequence = {.phase = PHASE_GENERATION,
                                                .query_len = 1,
                                                .kv_len = n,
                                                .new_len = n,
                                                .block_ids = &only_block,
                                                .n_blocks = 1,
                                                .query_index = last,
                                                .key_index = first};
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    if (rank->status == STATUS_OK)
        rank->status = rank->backend->metadata_prepare(metadata, &step, &shards, NULL);
    float(*query)[COLUMNS] = new_qkv(last, 1), (*keys)[COLUMNS] = new_qkv(first, n);
    struct attention_io io = attention_io_fused(&config, keys, COLUMNS, rank->output[rank->rank],
                                                WIDTH);
    io.q = query;
    io.lse = rank->lse[rank->rank];
    if (rank->status == STATUS_OK)
        rank->status = rank->backend->forward(attention, metadata, &io, NULL);
    struct context_partial partial = {1, HEADS, DIM, io.output, WIDTH, io.lse};
    float *workspace = malloc(context_gather_floats(&group, &partial) * sizeof *workspace);
    if (rank->status == STATUS_OK)
        rank->status = context_gather_merge(&group, workspace, &partial);
    if (rank->sinks)
        context_add_sinks(rank->sinks, &partial);
    free(workspace);
    free(query);
    free(keys);
    free(shards.base);
    rank->backend->metadata_destroy(metadata);
    rank->backend->destroy(attention);
    return NULL;
}

/* The whole prompt in one process. */
static void run_whole(const struct rank *like, float (*output)[WIDTH], float (*lse)[HEADS])
{
    static const uint32_t only_block = 0;
    const uint32_t n = first_token(like->lens, RANKS);
    struct attention_config config = config_of(like, 0);
    struct attention_limits limits = limits_of(like);
    config.keys = limits.keys = KEYS_SELF;
    config.sinks = like->sinks;
    limits.n_tokens_max = limits.kv_len_max = TOKENS_MAX;
    limits.n_kv_tokens_max = 0;
    struct kv_view view = kv_view_contiguous(NULL, 1, KV_HEADS, TOKENS_MAX, DIM, DTYPE_F32);
    view.base = malloc(view.block_stride);
    struct attention *attention;
    struct attention_metadata *metadata;
    cr_assert_eq(like->backend->create(&config, NULL, &attention, NULL), STATUS_OK);
    cr_assert_eq(like->backend->metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
    const struct attention_sequence sequence = {
        .query_len = n, .kv_len = n, .prompt_len = n, .block_ids = &only_block, .n_blocks = 1};
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    cr_assert_eq(like->backend->metadata_prepare(metadata, &step, &view, NULL), STATUS_OK);
    float(*qkv)[COLUMNS] = new_qkv(0, n);
    struct attention_io io = attention_io_fused(&config, qkv, COLUMNS, output, WIDTH);
    io.lse = &lse[0][0];
    cr_assert_eq(like->backend->forward(attention, metadata, &io, NULL), STATUS_OK);
    free(qkv);
    free(view.base);
    like->backend->metadata_destroy(metadata);
    like->backend->destroy(attention);
}

static float whole[TOKENS_MAX][WIDTH], parts[TOKENS_MAX][WIDTH];
static float whole_lse[TOKENS_MAX][HEADS], parts_lse[TOKENS_MAX][HEADS];

static void run_ranks(const struct rank *like, void *(*body)(void *), struct rank ranks_out[RANKS])
{
    struct context_threads *carriers;
    pthread_t threads[RANKS];
    cr_assert_eq(context_threads_create(RANKS, &carriers, NULL), STATUS_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks_out[r] = *like;
        ranks_out[r].threads = carriers;
        ranks_out[r].carrier = context_threads_group(carriers, r);
        ranks_out[r].rank = r;
        ranks_out[r].n_shifts_left = r == 1 && like->n_shifts_left ? like->n_shifts_left
                                                                   : UINT32_MAX;
        cr_assert_eq(pthread_create(&threads[r], NULL, body, &ranks_out[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    context_threads_destroy(carriers);
}

static const uint32_t LENS[][RANKS] = {{1, 1, 1}, {64, 64, 64}, {96, 17, 40}, {5, 90, 1}};

/* Dynamic: angles depend on the length of the whole prompt, of which a rank has a part. */
static void each_setting(enum rope_scaling scaling, void (*check)(const struct rank *like))
{
    static const float sinks[HEADS] = {1, -2, 0, 3};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_backends = attention_list(list);
    const struct rope_config config = {.head_dim = DIM,
                                       .positions_max = TOKENS_MAX,
                                       .theta = 10000,
                                       .scaling = scaling,
                                       .factor = 2,
                                       .original_positions = 50};
    struct rope *rope;
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    for (uint32_t k = 0; k < n_backends; k++)
        for (size_t i = 0; i < sizeof LENS / sizeof LENS[0]; i++)
            for (int with = 0; with < 2; with++)
                check(&(struct rank){.backend = list[k]->attention,
                                     .lens = LENS[i],
                                     .window = with ? 33 : 0,
                                     .sinks = with ? sinks : NULL,
                                     .rope = rope,
                                     .output = parts,
                                     .lse = parts_lse});
    rope_destroy(rope);
}

static void check_ring(const struct rank *like)
{
    struct rank ranks[RANKS];
    const uint32_t n = first_token(like->lens, RANKS);
    run_whole(like, whole, whole_lse);
    run_ranks(like, run_ring, ranks);
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(ranks[r].status, STATUS_OK);
    cr_assert_lt(values_error(parts[0], whole[0], (size_t)n * WIDTH), 1e-5);
    cr_assert_lt(values_error(parts_lse[0], whole_lse[0], (size_t)n * HEADS), 1e-5);
}

Test(context_parallel, a_ring_gives_what_one_process_does)
{
    each_setting(ROPE_NONE, check_ring);
    each_setting(ROPE_DYNAMIC, check_ring);
}

static void check_gather(const struct rank *like)
{
    struct rank ranks[RANKS];
    const uint32_t last = first_token(like->lens, RANKS) - 1;
    run_whole(like, whole, whole_lse);
    run_ranks(like, run_gather, ranks);
    for (uint32_t r = 0; r < RANKS; r++) {
        cr_assert_eq(ranks[r].status, STATUS_OK);
        cr_assert_lt(values_error(parts[r], whole[last], WIDTH), 1e-5);
        cr_assert_lt(values_error(parts_lse[r], whole_lse[last], HEADS), 1e-5);
        cr_assert_arr_eq(parts[r], parts[0], sizeof parts[0], "every rank has the same bits");
    }
}

Test(context_parallel, gathered_parts_give_what_one_process_does)
{
    each_setting(ROPE_NONE, check_gather);
}

Test(context_parallel, a_transport_that_fails_ends_the_call)
{
    const struct kernels *list[KERNELS_MAX];
    struct rank ranks[RANKS];
    cr_assert_geq(attention_list(list), 1);
    const struct rank like = {.backend = list[0]->attention,
                              .lens = LENS[1],
                              .output = parts,
                              .lse = parts_lse,
                              .n_shifts_left = 1};
    run_ranks(&like, run_ring, ranks);
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(ranks[r].status, STATUS_PEER_LOST);
}

Test(context_parallel, rows_without_a_key_change_nothing)
{
    float total[DIM], next[DIM], total_lse = -INFINITY, next_lse = -INFINITY;
    for (uint32_t i = 0; i < DIM; i++) {
        total[i] = 0;
        next[i] = NAN; /* an empty row may hold anything */
    }
    const struct context_partial empty = {1, 1, DIM, next, DIM, &next_lse};
    struct context_partial sum = {1, 1, DIM, total, DIM, &total_lse};
    context_merge(&empty, &sum);
    cr_assert_eq(total_lse, -INFINITY);
    cr_assert_eq(total[DIM - 1], 0);
    const float sink = 2;
    context_add_sinks(&sink, &sum);
    cr_assert_eq(total_lse, 2);
    cr_assert_eq(total[0], 0);
}

Test(context_parallel, what_is_no_ring_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    cr_assert_geq(attention_list(list), 1);
    const struct rank like = {.backend = list[0]->attention};
    struct attention_limits limits = limits_of(&like);
    struct context_group group = {RANKS, RANKS, NULL, shift, NULL};
    struct context_ring *ring = NULL;
    struct error error = {""};
    cr_assert_eq(context_ring_create(like.backend, &limits, &group, NULL, &ring, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "rank is 3, must be below n_ranks 3"));
    group.rank = 0;
    limits.keys = KEYS_SELF;
    limits.n_kv_tokens_max = 0;
    cr_assert_eq(context_ring_create(like.backend, &limits, &group, NULL, &ring, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "KEYS_SHARD"));
    limits = limits_of(&like);
    limits.mask = MASK_CAUSAL_UPPER_LEFT;
    cr_assert_eq(context_ring_create(like.backend, &limits, &group, NULL, &ring, &error),
                 STATUS_INVALID_ARGUMENT);
    limits.mask = MASK_CAUSAL;
    cr_assert_eq(context_ring_create(like.backend, &limits, &group, NULL, &ring, &error),
                 STATUS_OK);
    struct attention *attention = NULL;
    struct attention_config config = config_of(&like, 0);
    config.sinks = whole[0];
    cr_assert_eq(context_ring_create_layer(ring, &config, NULL, &attention, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "sinks"), "%s", error.text);
    config.sinks = NULL;
    config.compute = DTYPE_BF16;
    cr_assert_eq(context_ring_create_layer(ring, &config, NULL, &attention, &error),
                 STATUS_INVALID_ARGUMENT);
    struct kv_view shards = kv_view_contiguous(NULL, 1, KV_HEADS, SLOTS - 8, DIM, DTYPE_F32);
    cr_assert_eq(context_ring_prepare(ring, LENS[0], &shards, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "96 tokens"));
    context_ring_destroy(ring);
}
