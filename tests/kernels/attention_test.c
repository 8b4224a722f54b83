/* attention: every implementation agrees with float64, and a row's bits depend on its own sequence
 * only: not on batch, chunks, phase, block size, threads or instruction set. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/values.h"
#include "tests/kernels/support/world.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#if defined KVFERRY_SANITIZED_THREAD /* each in one thread */
#define N_WORLDS 8u
#elif defined KVFERRY_SANITIZED /* some ten times slower: the same code in fewer shapes */
#define N_WORLDS 40u
#else
#define N_WORLDS 240u
#endif
#ifdef KVFERRY_SANITIZED /* that numbers of threads change no bit is a result */
enum { FEWEST_THREADS = 3, MOST_THREADS = 3, MANY_SEQUENCES = 3 };
#else
enum { FEWEST_THREADS = 1, MOST_THREADS = 5, MANY_SEQUENCES = 5 };
#endif
#define ERROR_F32 1e-5

/* Cache rounding of the oracle and of the tested may differ by half a unit: section 4 of the
 * design has these bounds. */
static double error_bound(enum dtype cache)
{
    return cache == DTYPE_F32 ? ERROR_F32 : cache == DTYPE_BF16 ? 6e-3 : 1e-3;
}

static void assert_same_bits(const struct guarded *got, const struct guarded *expected,
                             size_t n_floats, const char *what, uint64_t seed)
{
    cr_assert_eq(memcmp(got->data, expected->data, n_floats * sizeof(float)), 0,
                 "%s changes bits of world %llu", what, (unsigned long long)seed);
}

static void assert_run_same(const struct world *world, const struct kernels *kernels,
                            struct thread_pool *pool, const struct guarded *expected,
                            const char *what)
{
    struct guarded output = world_run(world, kernels, pool);
    assert_same_bits(&output, expected, world_floats(world), what, world->seed);
    guarded_destroy(&output);
}

static void check_against_reference(uint64_t first_seed)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint64_t seed = first_seed; seed < first_seed + N_WORLDS / 4; seed++) {
        struct world world = world_random(seed);
        struct guarded expected = world_run(&world, list[0], NULL);
        for (uint32_t k = 1; k < n; k++) {
            struct guarded output = world_run(&world, list[k], NULL);
            double error = values_error(output.data, expected.data, world_floats(&world));
            cr_assert_leq(error, error_bound(world.cache), "%s: error %g in world %llu",
                          list[k]->name, error, (unsigned long long)seed);
            guarded_destroy(&output);
        }
        guarded_destroy(&expected);
    }
}

Test(attention, agrees_with_the_reference_in_worlds_0)
{
    check_against_reference(0);
}

Test(attention, agrees_with_the_reference_in_worlds_1)
{
    check_against_reference(N_WORLDS / 4);
}

Test(attention, agrees_with_the_reference_in_worlds_2)
{
    check_against_reference(N_WORLDS / 2);
}

Test(attention, agrees_with_the_reference_in_worlds_3)
{
    check_against_reference(N_WORLDS / 4 * 3);
}

/* Several ranges of keys: their merge against one softmax over all. */
Test(attention, agrees_with_the_reference_over_many_ranges, .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint32_t window = 0; window <= 700; window += 350)
        for (enum dtype cache = DTYPE_F32; cache <= DTYPE_F16; cache++) {
            struct world world = {.seed = 31 + window,
                                  .n_heads = 2,
                                  .n_kv_heads = 1,
                                  .head_dim = 24,
                                  .cache = cache,
                                  .window = window,
                                  .block_tokens = 16,
                                  .n_sequences = 1,
                                  .ids = {1},
                                  .prompt_lens = {890},
                                  .lens = {900}};
            struct guarded expected = world_run(&world, list[0], NULL);
            for (uint32_t k = 1; k < n; k++) {
                struct guarded output = world_run(&world, list[k], NULL);
                double error = values_error(output.data, expected.data, world_floats(&world));
                cr_assert_leq(error, error_bound(cache), "%s: error %g, window %u", list[k]->name,
                              error, window);
                guarded_destroy(&output);
            }
            guarded_destroy(&expected);
        }
}

Test(attention, every_instruction_set_gives_the_same_bits)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint64_t seed = 0; n > 2 && seed < N_WORLDS; seed++) {
        struct world world = world_random(seed);
        struct guarded expected = world_run(&world, list[1], NULL);
        for (uint32_t k = 1; k < n; k++) /* the first against itself: a repeat */
            if (!rounds_products(list[k]->name))
                assert_run_same(&world, list[k], NULL, &expected, list[k]->name);
        guarded_destroy(&expected);
    }
}

/* Each sequence alone, other chunks, all in the generation phase, other block sizes. */
static void check_cuts(const struct kernels *kernels, uint64_t seed)
{
    struct world world = world_random(seed);
    struct guarded whole = world_run(&world, kernels, NULL);
    size_t row_floats = (size_t)world.n_heads * world.head_dim;
    size_t row = 0;
    for (uint32_t s = 0; s < world.n_sequences; s++) {
        struct world alone = world_alone(&world, s);
        struct guarded part = {.data = (float *)whole.data + row * row_floats};
        assert_run_same(&alone, kernels, NULL, &part, "a batch");
        row += world.lens[s];
    }
    for (uint32_t block_tokens = 8; block_tokens <= 128; block_tokens *= 2) {
        struct world cut = world;
        cut.block_tokens = block_tokens;
        cut.chunk_tokens = block_tokens * (1 + seed % 3);
        assert_run_same(&cut, kernels, NULL, &whole, "a cut into chunks");
    }
    struct world generated = world;
    for (uint32_t s = 0; s < world.n_sequences; s++)
        generated.prompt_lens[s] = 1;
    assert_run_same(&generated, kernels, NULL, &whole, "the generation phase");
    guarded_destroy(&whole);
}

Test(attention, bits_do_not_depend_on_batch_chunk_phase_or_block)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    for (uint64_t seed = 0; seed < N_WORLDS / 2; seed++)
        check_cuts(list[n > 1 ? 1 + seed % (n - 1) : 0], seed);
}

/* Long enough for many ranges, and for the threads to be worth waking. */
static struct world long_world(uint32_t n_sequences, uint32_t window)
{
    struct world world = {.seed = 77,
                          .n_heads = 6,
                          .n_kv_heads = 2,
                          .head_dim = 64,
                          .cache = DTYPE_BF16,
                          .window = window,
                          .has_rope = true,
                          .block_tokens = 32,
                          .n_sequences = n_sequences};
    for (uint32_t s = 0; s < n_sequences; s++) {
        world.ids[s] = s + 1;
        world.lens[s] = 1300 + 70 * s;
        world.prompt_lens[s] = world.lens[s] - 3;
    }
    return world;
}

static void check_threads(uint32_t n_sequences, uint32_t window, uint32_t chunk_tokens)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    struct world world = long_world(n_sequences, window);
    struct guarded expected = world_run(&world, list[n - 1], NULL);
    world.chunk_tokens = chunk_tokens;
    for (uint32_t n_threads = FEWEST_THREADS; n_threads <= MOST_THREADS; n_threads += 2) {
        struct thread_pool *pool;
        cr_assert_eq(thread_pool_create(n_threads, false, &pool), STATUS_OK);
        assert_run_same(&world, list[n - 1], pool, &expected, "a number of threads");
        thread_pool_destroy(pool);
    }
    guarded_destroy(&expected);
}

Test(attention, split_ranges_give_the_same_bits_as_one_thread)
{
    check_threads(1, 0, 32);
    check_threads(2, 700, 64);
}

Test(attention, many_row_blocks_give_the_same_bits_as_one_thread)
{
    check_threads(MANY_SEQUENCES, 0, 0);
}

/* The pool is a sparse mapping; the block used lies behind 4 GiB. */
Test(attention, reaches_blocks_behind_four_gigabytes)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = attention_list(list);
    uint32_t n_blocks = 5u << 15; /* of 32 KiB: 5 GiB */
    struct kv_view kv = kv_view_dense(NULL, n_blocks, 2, 2, 32, 32, DTYPE_F32);
    size_t bytes = n_blocks * kv.block_stride;
    kv.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    cr_assert_neq(kv.base, MAP_FAILED);
    const struct attention_backend *backend = list[n - 1]->attention;
    struct attention_config config = {.n_heads = 2, .n_kv_heads = 2, .head_dim = 32};
    struct attention_limits limits = {.n_sequences_max = 1,
                                      .n_tokens_max = 1,
                                      .kv_len_max = 32,
                                      .n_heads = 2,
                                      .n_kv_heads = 2,
                                      .head_dim = 32};
    struct attention *attention;
    struct attention_metadata *metadata;
    cr_assert_eq(backend->create(&config, NULL, &attention, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&limits, NULL, &metadata, NULL), STATUS_OK);
    uint32_t last = n_blocks - 1;
    struct attention_sequence sequence = {
        .phase = PHASE_GENERATION, .query_len = 1, .kv_len = 1, .block_ids = &last, .n_blocks = 1};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, NULL), STATUS_OK);
    float qkv[3 * 64], output[64];
    for (uint32_t i = 0; i < 3 * 64; i++)
        qkv[i] = values_at(5, 0, i);
    struct attention_io io = attention_io_fused(&config, qkv, 3 * 64, output, 64);
    cr_assert_eq(backend->forward(attention, metadata, &io, NULL), STATUS_OK);
    cr_assert_arr_eq(output, qkv + 128, sizeof output); /* one key: its value */
    cr_assert_arr_eq((char *)kv.base + last * kv.block_stride, qkv + 64, 32 * sizeof(float));
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
    munmap(kv.base, bytes);
}
