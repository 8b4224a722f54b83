/*
 * model_bench - speed of one forward pass after another: prefill and decode tokens a second.
 *
 *     model_bench FOLDER [N_THREADS] [f32|bf16|f16: of the cache] [auto|int8|int8-group32: weights]
 *
 * Default: 2, f16, auto.
 *
 * Prefill in chunks of CHUNK_TOKENS with the logits of the last position; decode one sequence, at
 * three lengths of context. The best of RUNS counts: the others were disturbed. One line of JSON.
 */
#include "base/clock.h"
#include "kernels/kernels.h"
#include "model/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_TOKENS = 32, CHUNK_TOKENS = 512, DECODE_TOKENS = 32, RUNS = 3 };

static const uint32_t PROMPTS[] = {512, 2048};
static const uint32_t CONTEXTS[] = {0, 512, 4096};
enum { CONTEXT_MAX = 4096 + DECODE_TOKENS + 1 };

struct bench {
    struct model *model;
    struct thread_pool *threads;
    struct block_pool *pool;
    struct forward *forward;
    block_id *blocks;
    uint32_t n_blocks;
    uint32_t *token_ids; /* [CONTEXT_MAX] */
    float *logits;
};

static void check(enum status status, const struct error *error)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "model_bench: %s: %s\n", status_text(status), error->text);
    exit(1);
}

static enum weight_format parse_weights(const char *name)
{
    static const char *const names[] = {"auto", "int8", "int8-group32"};
    for (int i = WEIGHTS_AUTO; i <= WEIGHTS_INT8_GROUP32; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum weight_format)i;
    fprintf(stderr, "model_bench: weights %s: auto, int8 or int8-group32\n", name);
    exit(2);
}

static void bench_open(struct bench *bench, const char *folder, uint32_t n_threads,
                       enum cache_dtype cache_dtype, enum weight_format weights)
{
    struct error error = {""};
    struct model_options load = {.weights = weights};
    check(model_load(folder, &load, &error, &bench->model), &error);
    const struct model_config *config = model_get_config(bench->model);
    bench->n_blocks = (CONTEXT_MAX + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    check(thread_pool_create(n_threads, true, &bench->threads), &error);
    check(block_pool_create(bench->n_blocks, forward_block_bytes(config, BLOCK_TOKENS, cache_dtype),
                            &bench->pool),
          &error);
    struct forward_options options = {
        .block_tokens = BLOCK_TOKENS,
        .cache_dtype = cache_dtype,
        .tokens_max = CHUNK_TOKENS,
        .sequences_max = 1,
        .blocks_max = bench->n_blocks,
        .threads = bench->threads,
    };
    check(forward_create(bench->model, &options, bench->pool, &error, &bench->forward), &error);
    bench->blocks = calloc(bench->n_blocks, sizeof *bench->blocks);
    bench->token_ids = calloc(CONTEXT_MAX, sizeof *bench->token_ids);
    bench->logits = calloc(config->vocabulary, sizeof *bench->logits);
    if (!bench->blocks || !bench->token_ids || !bench->logits)
        check(STATUS_NO_MEMORY, &error);
    check(block_pool_acquire(bench->pool, bench->n_blocks, bench->blocks), &error);
    for (uint32_t i = 0; i < CONTEXT_MAX; i++)
        bench->token_ids[i] = i * 7919u % config->vocabulary;
}

static void bench_close(struct bench *bench)
{
    forward_destroy(bench->forward);
    block_pool_release(bench->pool, bench->blocks, bench->n_blocks);
    block_pool_destroy(bench->pool);
    thread_pool_destroy(bench->threads);
    model_destroy(bench->model);
    free(bench->blocks);
    free(bench->token_ids);
    free(bench->logits);
}

/* Tokens n_past .. n_past + n - 1, in one pass. */
static void step(struct bench *bench, uint32_t n_past, uint32_t n, bool is_context,
                 bool wants_logits)
{
    struct forward_sequence sequence = {
        .token_ids = bench->token_ids + n_past,
        .n_query = n,
        .n_past = n_past,
        .blocks = bench->blocks,
        .n_blocks = bench->n_blocks,
        .wants_logits = wants_logits,
    };
    forward_run(bench->forward, &sequence, 1, is_context ? 1 : 0, bench->logits);
}

static void prefill(struct bench *bench, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += CHUNK_TOKENS)
        step(bench, at, n - at < CHUNK_TOKENS ? n - at : CHUNK_TOKENS, true,
             n - at <= CHUNK_TOKENS);
}

static double per_second(uint32_t n, uint64_t started_ns)
{
    return (double)n / ((double)(clock_now_ns() - started_ns) / (double)NS_PER_S);
}

static double measure_prefill(struct bench *bench, uint32_t n)
{
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        uint64_t started_ns = clock_now_ns();
        prefill(bench, n);
        double speed = per_second(n, started_ns);
        best = speed > best ? speed : best;
    }
    return best;
}

static double measure_decode(struct bench *bench, uint32_t n_context)
{
    double best = 0;
    prefill(bench, n_context);
    step(bench, n_context, 1, false, true);
    for (int run = 0; run < RUNS; run++) {
        uint64_t started_ns = clock_now_ns();
        for (uint32_t i = 0; i < DECODE_TOKENS; i++)
            step(bench, n_context + 1 + i, 1, false, true);
        double speed = per_second(DECODE_TOKENS, started_ns);
        best = speed > best ? speed : best;
    }
    return best;
}

static enum cache_dtype parse_dtype(const char *name)
{
    return strcmp(name, "f32") == 0    ? CACHE_F32
           : strcmp(name, "bf16") == 0 ? CACHE_BF16
                                       : CACHE_F16;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: model_bench FOLDER [N_THREADS] [f32|bf16|f16]\n");
        return 2;
    }
    struct bench bench = {0};
    struct error error = {""};
    const struct kernels *kernels;
    uint32_t n_threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    const char *cache = argc > 3 ? argv[3] : "f16";
    check(kernels_select(NULL, &kernels, &error), &error);
    const char *weights = argc > 4 ? argv[4] : "auto";
    bench_open(&bench, argv[1], n_threads, parse_dtype(cache), parse_weights(weights));
    if (model_get_config(bench.model)->context_tokens < CONTEXT_MAX) {
        fprintf(stderr, "model_bench: the model's context is under %d tokens\n", CONTEXT_MAX);
        return 2;
    }
    printf("{\"kernels\": \"%s\", \"threads\": %u, \"cache\": \"%s\", \"weights\": \"%s\", "
           "\"weight_bytes\": %llu",
           kernels->name, n_threads, cache, weights,
           (unsigned long long)model_weight_bytes(bench.model));
    for (size_t i = 0; i < sizeof PROMPTS / sizeof *PROMPTS; i++)
        printf(", \"prefill_%u\": %.1f", PROMPTS[i], measure_prefill(&bench, PROMPTS[i]));
    for (size_t i = 0; i < sizeof CONTEXTS / sizeof *CONTEXTS; i++)
        printf(", \"decode_%u\": %.2f", CONTEXTS[i], measure_decode(&bench, CONTEXTS[i]));
    printf("}\n");
    bench_close(&bench);
    return 0;
}
