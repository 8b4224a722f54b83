/* forward and kv_update: a layer that is not of the metadata's group, or a tensor that is not there, is
 * refused with a sentence naming the field and its value, before anything is written. */
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/attention_list.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 64, LEN = 8, WIDTH = HEADS * DIM, ROW = 8 * DIM };

static float qkv[LEN * ROW], output[LEN * WIDTH], table[HEADS * LEN * LEN];
static float cache[4 * 2 * 2 * KV_HEADS * 16 * DIM];
static const uint32_t BLOCKS[] = {0};

/* One prompt of LEN tokens. */
struct call {
    struct attention_config config;
    struct attention_limits limits;
    struct kv_view kv;
    struct attention_io io;
    bool is_dummy;
};

static struct call good_call(void)
{
    struct call call = {.config = {.n_heads = HEADS, .n_kv_heads = KV_HEADS, .head_dim = DIM},
                        .limits = {.n_sequences_max = 1,
                                   .n_tokens_max = LEN,
                                   .kv_len_max = 64,
                                   .n_heads = HEADS,
                                   .n_kv_heads = KV_HEADS,
                                   .head_dim = DIM},
                        .kv = kv_view_dense(cache, 4, 2, KV_HEADS, 16, DIM, DTYPE_F32)};
    call.io = attention_io_fused(&call.config, qkv, ROW, output, WIDTH);
    return call;
}

enum { OF_FORWARD = 1, OF_KEYS = 2, OF_BOTH = 3 };

/* word NULL: taken. Nothing is written where it is refused. */
static void expect(const struct attention_backend *backend, const struct call *call, int calls,
                   const char *word)
{
    const struct attention_sequence sequence = {
        .query_len = LEN, .kv_len = LEN, .prompt_len = LEN, .block_ids = BLOCKS, .n_blocks = 1};
    const struct attention_step step = {
        .sequences = &sequence, .n_sequences = 1, .is_dummy = call->is_dummy};
    struct attention *attention = NULL;
    struct attention_metadata *metadata = NULL;
    struct error error = {""};
    cr_assert_eq(backend->create(&call->config, NULL, &attention, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(backend->metadata_create(&call->limits, NULL, &metadata, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &call->kv, &error), STATUS_OK, "%s",
                 error.text);
    memset(cache, 0x55, sizeof cache);
    memset(output, 0x55, sizeof output);
    for (int i = OF_FORWARD; i <= OF_KEYS; i++) {
        const char *expected = calls & i ? word : NULL;
        enum status status = i == OF_FORWARD
                                 ? backend->forward(attention, metadata, &call->io, &error)
                                 : backend->kv_update(attention, metadata, &call->io, &error);
        cr_assert_eq(status, expected ? STATUS_INVALID_ARGUMENT : STATUS_OK, "%s, %s: %s",
                     backend->name, i == OF_FORWARD ? "forward" : "kv_update",
                     expected ? expected : error.text);
        cr_assert(!expected || strstr(error.text, expected), "%s: %s", expected, error.text);
    }
    for (size_t i = 0; word && calls == OF_BOTH && i < sizeof cache; i++)
        cr_assert_eq(((char *)cache)[i], 0x55, "%s: the cache was written", word);
    for (size_t i = 0; word && i < sizeof output; i++)
        cr_assert_eq(((char *)output)[i], 0x55, "%s: output was written", word);
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
}

/* A layer and a metadata with pools of their own; word NULL: taken. */
static void run_with_pools(const struct attention_backend *backend, const struct call *call,
                           bool is_dummy, struct thread_pool *of_layer,
                           struct thread_pool *of_metadata, const char *word)
{
    const struct attention_sequence sequence = {
        .query_len = LEN, .kv_len = LEN, .prompt_len = LEN, .block_ids = BLOCKS, .n_blocks = 1};
    const struct attention_step step = {
        .sequences = &sequence, .n_sequences = 1, .is_dummy = is_dummy};
    struct attention *attention;
    struct attention_metadata *metadata;
    struct error error = {""};
    cr_assert_eq(backend->create(&call->config, of_layer, &attention, &error), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&call->limits, of_metadata, &metadata, &error),
                 STATUS_OK);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &call->kv, &error), STATUS_OK);
    memset(cache, 0x55, sizeof cache);
    const enum status status = backend->forward(attention, metadata, &call->io, &error);
    cr_assert_eq(status, word ? STATUS_INVALID_ARGUMENT : STATUS_OK, "%s", backend->name);
    cr_assert(!word || strstr(error.text, word), "%s", error.text);
    for (size_t i = 0; word && i < sizeof cache; i++)
        cr_assert_eq(((char *)cache)[i], 0x55, "the cache was written");
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
}

static void expect_all(const struct call *call, int calls, const char *word)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++)
        expect(list[k]->attention, call, calls, word);
}

#define EXPECT(calls, word, ...)                                                                   \
    do {                                                                                           \
        struct call call = good_call();                                                            \
        __VA_ARGS__;                                                                               \
        expect_all(&call, calls, word);                                                            \
    } while (0)

/* Each thread of a layer's pool has a scratch of the metadata's. */
Test(forward_refusal, a_pool_with_more_threads_than_the_metadata_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = attention_list(list);
    const struct call call = good_call();
    struct thread_pool *few, *many;
    cr_assert_eq(thread_pool_create(2, false, &few), STATUS_OK);
    cr_assert_eq(thread_pool_create(3, false, &many), STATUS_OK);
    for (uint32_t k = 1; k < n; k++)
        for (int is_dummy = 0; is_dummy < 2; is_dummy++) {
            run_with_pools(list[k]->attention, &call, is_dummy, many, NULL,
                           "the layer's pool has 3 threads, the metadata was created for 1");
            run_with_pools(list[k]->attention, &call, is_dummy, many, few,
                           "the layer's pool has 3 threads, the metadata was created for 2");
            run_with_pools(list[k]->attention, &call, is_dummy, few, many, NULL);
            run_with_pools(list[k]->attention, &call, is_dummy, NULL, NULL, NULL);
        }
    thread_pool_destroy(few);
    thread_pool_destroy(many);
}

Test(forward_refusal, a_good_call_is_taken)
{
    EXPECT(OF_BOTH, NULL, (void)0);
}

Test(forward_refusal, a_layer_of_another_group_is_named)
{
    EXPECT(OF_BOTH, "n_heads is 2 in the layer, 4 in", call.config.n_heads = 2);
    EXPECT(OF_BOTH, "n_kv_heads is 4 in the layer, 2 in", call.config.n_kv_heads = 4);
    EXPECT(OF_BOTH, "head_dim is 32 in the layer, 64 in", call.config.head_dim = 32);
    EXPECT(OF_BOTH, "cache dtype is 1 in the layer, 0 in", call.config.cache = DTYPE_BF16);
    EXPECT(OF_BOTH, "mask is 1 in the layer, 0 in", call.config.mask = MASK_CAUSAL_UPPER_LEFT);
    EXPECT(OF_BOTH, "keys is 2 in the layer, 0 in", call.config.keys = KEYS_SHARD);
    EXPECT(OF_BOTH, "is_cyclic is 1 in the layer, 0 in", call.config.is_cyclic = true,
           call.config.window = 16);
    EXPECT(OF_BOTH, "sink_tokens is 4 in the layer, 0 in", call.config.sink_tokens = 4,
           call.config.window = 16);
    EXPECT(OF_BOTH, "window is 16 in the layer, 32 in", call.config.is_cyclic = true,
           call.config.window = 16, call.limits.is_cyclic = true, call.limits.window = 32);
    EXPECT(OF_BOTH, NULL, call.config.window = 16); /* of each layer its own */
}

Test(forward_refusal, what_a_step_may_ask_for_and_the_layer_cannot_is_named)
{
    EXPECT(OF_BOTH, "n_beams_max is 2 in the metadata's limits, the layer takes 1",
           call.limits.n_beams_max = 2);
    EXPECT(OF_BOTH, "n_draft_max is 3 in the metadata's limits, the layer takes 2",
           call.limits.n_draft_max = 3, call.config.n_draft_max = 2);
    EXPECT(OF_BOTH, "bias_keys is 0 in the metadata's limits, the layer has bias.table",
           call.config.bias = ((struct attention_bias){
               .table = table, .n_queries = LEN, .n_keys = LEN}));
    EXPECT(OF_BOTH, "bias_queries is 9 in the metadata's limits, the layer takes 8",
           call.config.bias = ((struct attention_bias){
               .table = table, .n_queries = LEN, .n_keys = LEN}),
           call.limits.bias_queries = LEN + 1, call.limits.bias_keys = LEN);
    EXPECT(OF_BOTH, "has_short_path is 0", call.config.path = PATH_SHORT);
    EXPECT(OF_BOTH, "has_multi_block is 0", call.config.multi_block = CHOICE_ON);
    EXPECT(OF_BOTH, "layer_index is 2, kv.n_layers is 2", call.config.layer_index = 2);
}

Test(forward_refusal, a_rope_that_the_metadata_does_not_have_is_refused)
{
    const struct rope_config config = {.head_dim = DIM, .positions_max = 64, .theta = 10000};
    struct rope *mine = NULL, *other = NULL;
    cr_assert_eq(rope_create(&config, &mine, NULL), STATUS_OK);
    cr_assert_eq(rope_create(&config, &other, NULL), STATUS_OK);
    EXPECT(OF_BOTH, "rope is not among the metadata's limits.ropes", call.config.rope = mine);
    EXPECT(OF_BOTH, "rope is not among", call.config.rope = mine, call.limits.ropes[0] = other);
    EXPECT(OF_BOTH, NULL, call.config.rope = mine, call.limits.ropes[0] = other,
           call.limits.ropes[1] = mine);
    EXPECT(OF_BOTH, "as the first", call.config.rope = mine, call.config.sink_tokens = 4,
           call.config.window = 16, call.limits.ropes[0] = other, call.limits.ropes[1] = mine,
           call.limits.sink_tokens = 4, call.limits.window = 16);
    rope_destroy(mine);
    rope_destroy(other);
}

Test(forward_refusal, a_tensor_that_is_not_there_is_named)
{
    EXPECT(OF_FORWARD, "q is NULL, the step has 8 rows", call.io.q = NULL);
    EXPECT(OF_BOTH, "k is NULL, the step has 8 rows", call.io.k = NULL);
    EXPECT(OF_BOTH, "v is NULL, the step has 8 rows", call.io.v = NULL);
    EXPECT(OF_FORWARD, "output is NULL, the step has 8 rows", call.io.output = NULL);
    EXPECT(OF_FORWARD, "mask is NULL, mask_input is 2", call.config.mask_input = MASK_INPUT_FLOAT);
    EXPECT(OF_FORWARD, "mask is given, mask_input is 0", call.io.mask = table);
    EXPECT(OF_BOTH, NULL, call.is_dummy = true, call.io.q = NULL, call.io.k = NULL,
           call.io.v = NULL); /* reads nothing */
}

Test(forward_refusal, rows_that_overlap_or_end_over_64_bits_are_named)
{
    EXPECT(OF_FORWARD, "q_stride is 255, a row has 256", call.io.q_stride = WIDTH - 1);
    EXPECT(OF_BOTH, "k_stride is 127, a row has 128", call.io.k_stride = KV_HEADS * DIM - 1);
    EXPECT(OF_BOTH, "v_stride is 0, a row has 128", call.io.v_stride = 0);
    EXPECT(OF_FORWARD, "output_stride is 255, a row has 256", call.io.output_stride = WIDTH - 1);
    EXPECT(OF_FORWARD, "q_stride is 2305843009213693952: the size of 8 rows",
           call.io.q_stride = UINT64_C(1) << 61); /* times 8: 0 */
    EXPECT(OF_BOTH, "k_stride is 576460752303423488: the size of 8 rows",
           call.io.k_stride = UINT64_C(1) << 59); /* times 8 rows and 4 bytes: 0 */
    EXPECT(OF_FORWARD, "output_stride is 18446744073709551615", call.io.output_stride = UINT64_MAX);
    EXPECT(OF_FORWARD, "mask_query_stride 18446744073709551615 of 8 queries",
           call.config.mask_input = MASK_INPUT_FLOAT, call.io.mask = table,
           call.io.mask_query_stride = UINT64_MAX);
}

/* Sizes that no machine counts, then an address space with no room for them. The sanitizers' allocator ends
 * the process where malloc says no. */
#ifndef KVFERRY_SANITIZED
static void leave_no_memory(void)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    cr_assert(statm && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    const rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (8 << 20);
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}), 0);
}

Test(forward_refusal, memory_that_is_not_there_has_a_sentence)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    struct call call = good_call();
    call.limits.n_sequences_max = 1 << 24;
    call.config.n_heads = call.config.n_kv_heads = 1 << 20;
    call.config.qkv_bias = qkv; /* no element is read: there is no room for the copy */
    leave_no_memory();
    for (uint32_t k = 0; k < n; k++) {
        const struct attention_backend *backend = list[k]->attention;
        struct attention *attention = NULL;
        struct attention_metadata *metadata = NULL;
        struct error error = {""};
        cr_assert_eq(backend->metadata_create(&call.limits, NULL, &metadata, &error),
                     STATUS_NO_MEMORY);
        cr_assert(strstr(error.text, "n_sequences_max 16777216"), "%s", error.text);
        cr_assert_eq(backend->create(&call.config, NULL, &attention, &error), STATUS_NO_MEMORY);
        cr_assert(strstr(error.text, "n_heads 1048576"), "%s", error.text);
        cr_assert(!metadata && !attention);
    }
}

/* Biases of all distances: their number of bytes is over 64 bits. */
Test(forward_refusal, a_table_over_64_bits_is_no_memory)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    struct call call = good_call();
    call.config.n_heads = call.config.n_kv_heads = UINT32_MAX;
    call.config.bias = (struct attention_bias){
        .buckets = table, .n_buckets = 4, .distance_max = UINT32_MAX};
    for (uint32_t k = 1; k < n; k++) { /* the reference has no such table */
        struct attention *attention = NULL;
        struct error error = {""};
        cr_assert_eq(list[k]->attention->create(&call.config, NULL, &attention, &error),
                     STATUS_NO_MEMORY);
        cr_assert(strstr(error.text, "n_heads 4294967295"), "%s", error.text);
    }
}
#endif
