/* forward where the device wants static steps: a step that only generates runs at its bucket, filled up, with the bits and
 * the cache of one that is not. */
#include "kernels/kernels.h"
#include "model/forward/forward_parts.h"
#include "tests/device/fault_device.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEQUENCES = 6, N_TOKENS = 60, PROMPT_MIN = 3, CHUNK = 16 };

static const uint32_t BUCKETS[] = {1, 2, 4, 6};

/* Sequences of one runner; both runners of a test do the same. */
struct side {
    struct runner runner;
    struct runner_sequence sequences[N_SEQUENCES];
    float *logits; /* [N_SEQUENCES][vocabulary] */
};

static uint32_t token_of(const struct side *side, uint32_t s, uint32_t at)
{
    return (s * 977 + at * 131 + 7) % side->runner.vocabulary;
}

static void prefill(struct side *side, uint32_t s)
{
    uint32_t ids[PROMPT_MIN + N_SEQUENCES * 5];
    uint32_t n = PROMPT_MIN + s * 5;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = token_of(side, s, i);
    runner_prefill(&side->runner, &side->sequences[s], ids, n, 0, side->logits);
}

static void side_open(struct side *side, const char *folder, struct runner_options options)
{
    options.tokens_max = 64;
    options.sequences_max = N_SEQUENCES;
    options.n_blocks = 48;
    runner_open(&side->runner, folder, options);
    side->logits = calloc((size_t)N_SEQUENCES * side->runner.vocabulary, sizeof *side->logits);
    cr_assert(side->logits);
    cr_assert_eq(forward_warm_up(side->runner.forward), STATUS_OK);
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        runner_begin(&side->runner, &side->sequences[s], N_TOKENS);
        prefill(side, s);
    }
}

static void side_close(struct side *side)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        runner_end(&side->runner, &side->sequences[s]);
    free(side->logits);
    runner_close(&side->runner);
}

/* Sequences first .. first + n - 1, of which the first n_contexts have a chunk of two tokens. Returns the rows of logits. */
static uint32_t step(struct side *side, uint32_t first, uint32_t n, uint32_t n_contexts)
{
    struct forward_sequence batch[N_SEQUENCES];
    uint32_t ids[N_SEQUENCES][2], n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = (first + i) % N_SEQUENCES;
        struct runner_sequence *sequence = &side->sequences[s];
        bool is_wanted = (i + first) % 3 != 2 || n == 1;
        for (uint32_t t = 0; t < 2; t++)
            ids[i][t] = token_of(side, s, sequence->n_past + t);
        sequence->prompt_len = sequence->n_past + 2;
        batch[i] = runner_next(sequence, ids[i], i < n_contexts ? 2 : 1, is_wanted);
        n_rows += is_wanted;
    }
    cr_assert_eq(forward_run(side->runner.forward, batch, n, n_contexts, side->logits), STATUS_OK);
    return n_rows;
}

static void assert_equal_bits(const struct side *got, const struct side *expected, uint32_t n_rows,
                              const char *what)
{
    const struct block_pool *pool = got->runner.pool, *other = expected->runner.pool;
    size_t bytes = block_pool_size(pool) * block_pool_block_bytes(pool);
    cr_assert_eq(memcmp(got->logits, expected->logits,
                        (size_t)n_rows * got->runner.vocabulary * sizeof *got->logits),
                 0, "%s: logits", what);
    cr_assert_eq(memcmp(block_pool_base(pool), block_pool_base(other), bytes), 0, "%s: cache",
                 what);
}

/* The step just run was of the smallest bucket that holds it, and filled up. */
static void assert_filled_up(const struct side *side, uint32_t n)
{
    const struct step_layout *layout = forward_layout_of(side->runner.forward, n, 0);
    uint32_t b = 0;
    while (BUCKETS[b] < n)
        b++;
    cr_assert_eq(layout->metadata->n_sequences, BUCKETS[b]);
    cr_assert_eq(layout->metadata->n_dummies, BUCKETS[b] - n);
    cr_assert_eq(layout->metadata->n_tokens, BUCKETS[b]);
}

static void check(const char *folder, struct runner_options options)
{
    char what[200];
    struct side filled, plain;
    options.device = fault_device_open(&(struct fault_options){
        .seed = 3, .steps_max = 2, .computes_at_once = true, .wants_static_steps = true});
    side_open(&filled, folder, options);
    struct device *device = options.device;
    options.device = NULL;
    side_open(&plain, folder, options);
    cr_assert_eq(plain.runner.forward->n_layouts, 1, "the host has no buckets");
    cr_assert_eq(filled.runner.forward->n_layouts, 1 + sizeof BUCKETS / sizeof *BUCKETS);
    for (uint32_t n = 1; n <= N_SEQUENCES; n++) {
        for (uint32_t n_contexts = 0; n_contexts <= 1; n_contexts++) {
            snprintf(what, sizeof what, "%s, %s, dtype %d, %u threads: %u sequences, %u contexts",
                     folder, options.cpu_kernels ? options.cpu_kernels : "default",
                     (int)options.cache_dtype, options.n_threads, n, n_contexts);
            uint32_t n_rows = step(&filled, n, n, n_contexts);
            if (n_contexts == 0)
                assert_filled_up(&filled, n);
            else
                cr_assert_eq(filled.runner.forward->layouts[0].metadata->n_sequences, n);
            cr_assert_eq(step(&plain, n, n, n_contexts), n_rows);
            assert_equal_bits(&filled, &plain, n_rows, what);
        }
    }
    side_close(&plain);
    side_close(&filled);
    device_close(device);
}

Test(forward_static, filled_up_steps_have_the_bits_of_their_sequences_in_every_cache_dtype)
{
    static const enum cache_dtype DTYPES[] = {CACHE_F32, CACHE_BF16, CACHE_F16, CACHE_INT8,
                                              CACHE_E4M3};
    for (size_t d = 0; d < sizeof DTYPES / sizeof *DTYPES; d++)
        for (uint32_t n_threads = 0; n_threads <= 3; n_threads++)
            check(GOLDEN_MODELS "/qwen3_t5_bias",
                  (struct runner_options){.cache_dtype = DTYPES[d], .n_threads = n_threads});
    check(GOLDEN_MODELS "/mistral_t4_window", (struct runner_options){.block_tokens = 8});
    check(GOLDEN_MODELS "/llama_t5_dynamic", (struct runner_options){.n_threads = 2});
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) /* rows enough for all of them */
        check(DEMO_MODEL,
              (struct runner_options){.n_threads = n_threads,
                                      .cache_dtype = n_threads == 2 ? CACHE_BF16 : CACHE_F32});
}

Test(forward_static, and_with_every_set_of_kernels)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n; k++) {
        check(GOLDEN_MODELS "/qwen3_t5_bias",
              (struct runner_options){.cpu_kernels = list[k]->name, .n_threads = k % 3});
        check(GOLDEN_MODELS "/mistral_t4_window",
              (struct runner_options){.cpu_kernels = list[k]->name,
                                      .cache_dtype = CACHE_BF16,
                                      .weights = k % 2 ? WEIGHTS_INT8 : WEIGHTS_AUTO});
    }
}
