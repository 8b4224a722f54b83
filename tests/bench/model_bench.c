/*
 * model_bench - speed of one forward pass after another: prefill and decode tokens a second.
 *
 *     model_bench MODEL [N_THREADS] [f32|bf16|f16: of the cache] [auto|int8|int8-group32|q8|q4: weights]
 *                 [compute|bf16|fp16: attention of prompts] [quick|full|long]
 *                 [--block-activations=int8] [--kernels=NAME] [--device=NAME]
 *
 * Default: 2, f16, auto, compute, cpu and its fastest kernels. Prefill in chunks of CHUNK_TOKENS with the logits of the last position; decode
 * one sequence at three lengths of context, then 8 and 16 sequences at once. quick: a part of these cells; long: decode behind LONG_TOKENS
 * alone, for which the K and V of a shorter prompt are copied. The best of RUNS counts, or of those that fit into RUNS_NS: the others
 * were disturbed.
 *
 * One line of JSON: seconds from loading to the first token behind a short prompt; tokens a second of each cell; bytes of weights and cache that a decoded token
 * reads; the machine's read bandwidth, measured first.
 */
#include "base/clock.h"
#include "gguf/gguf_files.h"
#include "model/config/kv_layers.h"
#include "model/forward/forward.h"
#include "model/kernel_choice.h"
#include "model/weights/kv_scales.h"
#include "model/weights/weights.h"
#include "tests/bench/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_TOKENS = 32, CHUNK_TOKENS = 512, DECODE_TOKENS = 32, RUNS = 3, FIRST_TOKENS = 16 };
#define KV_LARGEST 16.0 /* of K and V, for caches of 8 bits: it changes no time */
enum { CONTEXT_TOKENS = 4096, LONG_TOKENS = 32768 };
enum { CONTEXT_MAX = LONG_TOKENS + DECODE_TOKENS + 1, BLOCKS_MAX = CONTEXT_MAX / BLOCK_TOKENS + 1 };
enum { BATCH_MAX = 16, BATCH_CONTEXT = 128 }; /* sequences, and prompt tokens of each */
enum { BATCH_BLOCKS = (BATCH_CONTEXT + DECODE_TOKENS) / BLOCK_TOKENS + 1 };

#define RUNS_NS (8 * NS_PER_S)

_Static_assert(BATCH_MAX *BATCH_BLOCKS <= CONTEXT_TOKENS / BLOCK_TOKENS, "one pool serves both");

enum cell_set { CELLS_QUICK, CELLS_FULL, CELLS_LONG };

struct speed {
    struct bench machine;
    uint64_t start_ns; /* of loading */
    struct model *model;
    enum cache_dtype cache_dtype;
    struct kv_scales kv_scales;
    enum context_math context_math;
    enum block_activations activations;
    const char *device_name, *kernels_name;
    struct device *device;
    struct device_memory pool_memory; /* on a device with memory of its own */
    struct block_pool *pool;
    struct forward *forward;
    enum cell_set cell_set;
    uint32_t n_blocks, context_tokens; /* as the set needs */
    block_id blocks[BLOCKS_MAX];
    uint32_t token_ids[CONTEXT_MAX];
    uint32_t n_cached; /* prompt tokens of the one sequence whose K and V are there */
    float *logits;     /* [BATCH_MAX][vocabulary] */
    block_id *states;  /* [BATCH_MAX][n_state] of layers with recurrent state */
    uint32_t n_state;
};

static void check(enum status status, const struct error *error)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "model_bench: %s%s%s\n", status_text(status), error ? ": " : "",
            error ? error->text : "");
    exit(1);
}

/* The index of word among n of them. */
static int parse_word(const char *what, const char *word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    fprintf(stderr, "model_bench: %s %s: none of", what, word);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s", words[i]);
    fprintf(stderr, "\n");
    exit(2);
}

static enum weight_format parse_weights(const char *word)
{
    static const char *const words[] = {"auto", "int8", "int8-group32", "q8", "q4"};
    return (enum weight_format)parse_word("weights", word, words, WEIGHTS_Q4 + 1);
}

static enum context_math parse_math(const char *word)
{
    const char *words[CONTEXT_MATHS];
    for (int i = 0; i < (int)CONTEXT_MATHS; i++)
        words[i] = context_math_name((enum context_math)i);
    return (enum context_math)parse_word("attention", word, words, CONTEXT_MATHS);
}

static void open_pool(struct speed *speed, size_t block_bytes)
{
    if (device_reads_host(speed->device)) {
        check(block_pool_create(speed->n_blocks + BATCH_MAX * speed->n_state, block_bytes,
                                &speed->pool),
              NULL);
        return;
    }
    check(device_allocate(speed->device, DEVICE_KV, speed->n_blocks * block_bytes,
                          &speed->pool_memory),
          NULL);
    check(block_pool_create_in(speed->pool_memory.base, speed->n_blocks, block_bytes, &speed->pool),
          NULL);
}

static void acquire_states(struct speed *speed)
{
    const uint32_t n = BATCH_MAX * speed->n_state;
    speed->states = calloc(n + 1, sizeof *speed->states);
    if (!speed->states)
        check(STATUS_NO_MEMORY, NULL);
    check(block_pool_acquire(speed->pool, n, speed->states), NULL);
}

static void speed_open(struct speed *speed, const char *folder, uint32_t n_threads,
                       enum cache_dtype cache_dtype, enum weight_format weights)
{
    struct error error = {""};
    bench_open(n_threads, true, &speed->machine);
    speed->start_ns = clock_now_ns();
    check(device_open(speed->device_name, &speed->device, &error), &error);
    check(kernel_choice_load(speed->device, &error), &error);
    if (speed->kernels_name && strcmp(speed->kernels_name, KERNEL_CHOICE_FAST) == 0)
        check(device_open_products(speed->device, &error), &error);
    struct model_options load = {.weights = weights,
                                 .cpu_kernels = speed->kernels_name,
                                 .threads = speed->machine.pool,
                                 .device = speed->device};
    check(model_load(folder, &load, &error, &speed->model), &error);
    const struct model_config *config = model_get_config(speed->model);
    speed->cache_dtype = cache_dtype;
    speed->context_tokens = (speed->cell_set == CELLS_LONG ? LONG_TOKENS : CONTEXT_TOKENS) +
                            DECODE_TOKENS + 1;
    speed->n_blocks = speed->context_tokens / BLOCK_TOKENS + 1;
    if (config->context_tokens < speed->context_tokens) {
        fprintf(stderr, "model_bench: the model's context is under %u tokens\n",
                speed->context_tokens);
        exit(2);
    }
    const size_t block_bytes = forward_block_bytes(config, BLOCK_TOKENS, cache_dtype);
    speed->n_state = state_layout_blocks(config, block_bytes);
    if (speed->n_state == UINT32_MAX) {
        fprintf(stderr, "model_bench: a recurrent state does not fit into blocks of %zu bytes\n",
                block_bytes);
        exit(2);
    }
    open_pool(speed, block_bytes);
    check(kv_scales_alike(kv_layers_count(config), KV_LARGEST, &speed->kv_scales), NULL);
    struct forward_options options = {
        .kv_scales = &speed->kv_scales,
        .block_tokens = BLOCK_TOKENS,
        .cache_dtype = cache_dtype,
        .context_math = speed->context_math,
        .block_activations = speed->activations,
        .tokens_max = CHUNK_TOKENS,
        .sequences_max = BATCH_MAX,
        .blocks_max = speed->n_blocks,
        .groups = {.n_state = speed->n_state},
        .threads = speed->machine.pool,
        .device = speed->device,
    };
    check(forward_create(speed->model, &options, &error, &speed->forward), &error);
    check(forward_warm_up(speed->forward), NULL);
    check(forward_plan_products(speed->forward, &error), &error);
    check(forward_attach(speed->forward, speed->pool, &error), &error);
    check(block_pool_acquire(speed->pool, speed->n_blocks, speed->blocks), &error);
    acquire_states(speed);
    speed->logits = calloc((size_t)BATCH_MAX * config->vocabulary, sizeof *speed->logits);
    if (!speed->logits)
        check(STATUS_NO_MEMORY, &error);
    for (uint32_t i = 0; i < CONTEXT_MAX; i++)
        speed->token_ids[i] = i * 7919u % config->vocabulary;
}

static void speed_close(struct speed *speed)
{
    forward_destroy(speed->forward);
    block_pool_release(speed->pool, speed->blocks, speed->n_blocks);
    block_pool_release(speed->pool, speed->states, BATCH_MAX * speed->n_state);
    block_pool_destroy(speed->pool);
    device_free(speed->device, &speed->pool_memory);
    model_destroy(speed->model);
    device_close_products(speed->device);
    device_close(speed->device);
    free(speed->logits);
    free(speed->states);
    bench_close(&speed->machine);
    kv_scales_finish(&speed->kv_scales);
}

/* ---- passes ---- */

/* Whatever it knows: no time depends on it. */
static const block_id *state_of(const struct speed *speed, uint32_t sequence)
{
    return speed->states + (size_t)sequence * speed->n_state;
}

/* Tokens n_past .. n_past + n - 1 of the one sequence. */
static void pass(struct speed *speed, uint32_t n_past, uint32_t n, bool is_context,
                 bool wants_logits)
{
    struct forward_sequence sequence = {
        .token_ids = speed->token_ids + n_past,
        .n_query = n,
        .n_past = n_past,
        .prompt_len = n_past + n, /* every chunk is whole blocks */
        .blocks = speed->blocks,
        .n_blocks = speed->n_blocks,
        .wants_logits = wants_logits,
        .state_blocks = state_of(speed, 0),
    };
    check(forward_run(speed->forward, &sequence, 1, is_context ? 1 : 0, speed->logits), NULL);
}

/* Token n_past .. of sequences first .. first + n - 1 of a batch, each with blocks of its own. */
static void batch_pass(struct speed *speed, uint32_t first, uint32_t n, uint32_t n_past,
                       uint32_t n_query)
{
    struct forward_sequence sequences[BATCH_MAX];
    for (uint32_t i = 0; i < n; i++)
        sequences[i] = (struct forward_sequence){
            .token_ids = speed->token_ids + n_past,
            .n_query = n_query,
            .n_past = n_past,
            .prompt_len = n_past + n_query,
            .blocks = speed->blocks + (first + i) * BATCH_BLOCKS,
            .n_blocks = BATCH_BLOCKS,
            .wants_logits = n_query == 1,
            .state_blocks = state_of(speed, first + i),
        };
    check(forward_run(speed->forward, sequences, n, n_query == 1 ? 0 : n, speed->logits), NULL);
}

static void prefill(struct speed *speed, uint32_t from, uint32_t to)
{
    for (uint32_t at = from; at < to; at += CHUNK_TOKENS)
        pass(speed, at, to - at < CHUNK_TOKENS ? to - at : CHUNK_TOKENS, true,
             to - at <= CHUNK_TOKENS);
    speed->n_cached = to;
}

/* ---- what is measured, in this order: a decode continues the prefill before it ---- */

static void run_prefill(struct speed *speed, uint32_t n)
{
    prefill(speed, 0, n);
}

static void prepare_decode(struct speed *speed, uint32_t n)
{
    prefill(speed, speed->n_cached, n);
    pass(speed, n, 1, false, true);
}

/* On a device with memory of its own a long prompt is computed: there it is fast. */
static void prepare_long(struct speed *speed, uint32_t n)
{
    if (!device_reads_host(speed->device)) {
        prepare_decode(speed, n);
        return;
    }
    prefill(speed, 0, CONTEXT_TOKENS);
    const uint32_t n_filled = CONTEXT_TOKENS / BLOCK_TOKENS;
    for (uint32_t i = n_filled; i < n / BLOCK_TOKENS; i++)
        memcpy(block_pool_data(speed->pool, speed->blocks[i]),
               block_pool_data(speed->pool, speed->blocks[i % n_filled]),
               block_pool_block_bytes(speed->pool));
    pass(speed, n, 1, false, true);
}

static void run_decode(struct speed *speed, uint32_t n)
{
    for (uint32_t i = 0; i < DECODE_TOKENS; i++)
        pass(speed, n + 1 + i, 1, false, true);
}

static void prepare_batch(struct speed *speed, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        batch_pass(speed, i, 1, 0, BATCH_CONTEXT);
}

static void run_batch(struct speed *speed, uint32_t n)
{
    for (uint32_t i = 0; i < DECODE_TOKENS; i++)
        batch_pass(speed, 0, n, BATCH_CONTEXT + i, 1);
}

typedef void (*speed_part)(struct speed *speed, uint32_t n);

static const struct cell {
    const char *name;
    uint32_t n;
    speed_part prepare, run; /* prepare NULL: nothing to do */
    uint32_t tokens;         /* of a run */
    uint32_t context;        /* of a decoded token, half-way; 0: no decode */
    enum cell_set set;
} cells[] = {
    {"decode_0", 0, prepare_decode, run_decode, DECODE_TOKENS, DECODE_TOKENS / 2, CELLS_QUICK},
    {"prefill_512", 512, NULL, run_prefill, 512, 0, CELLS_QUICK},
    {"decode_512", 512, prepare_decode, run_decode, DECODE_TOKENS, 512 + DECODE_TOKENS / 2,
     CELLS_QUICK},
    {"prefill_2048", 2048, NULL, run_prefill, 2048, 0, CELLS_FULL},
    {"decode_4096", 4096, prepare_decode, run_decode, DECODE_TOKENS, 4096 + DECODE_TOKENS / 2,
     CELLS_FULL},
    {"batch_8", 8, prepare_batch, run_batch, 8 * DECODE_TOKENS, 0, CELLS_FULL},
    {"batch_16", 16, prepare_batch, run_batch, 16 * DECODE_TOKENS, 0, CELLS_FULL},
    {"decode_32768", LONG_TOKENS, prepare_long, run_decode, DECODE_TOKENS,
     LONG_TOKENS + DECODE_TOKENS / 2, CELLS_LONG},
};

static double tokens_per_second(struct speed *speed, const struct cell *cell)
{
    if (cell->prepare)
        cell->prepare(speed, cell->n);
    uint64_t best_ns = UINT64_MAX;
    uint64_t start_ns = clock_now_ns();
    uint64_t now_ns = start_ns;
    for (int run = 0; run < RUNS && now_ns - start_ns < RUNS_NS; run++) {
        uint64_t run_ns = now_ns;
        cell->run(speed, cell->n);
        now_ns = clock_now_ns();
        best_ns = now_ns - run_ns < best_ns ? now_ns - run_ns : best_ns;
    }
    return cell->tokens * (double)NS_PER_S / (double)best_ns;
}

/* What every pass reads: an embedding that is not the head as well gives a row. */
static uint64_t weight_bytes_read(const struct model *model)
{
    const struct weights *weights = model_weights(model);
    const struct tensor *embedding = &weights->embedding;
    uint64_t bytes = model_weight_bytes(model);
    if (weights->head.data != embedding->data)
        bytes -= dtype_array_bytes(embedding->dtype, (size_t)embedding->n_out * embedding->n_in);
    return bytes;
}

static void print_cells(struct speed *speed)
{
    uint64_t weights = weight_bytes_read(speed->model);
    uint64_t cache = forward_block_bytes(model_get_config(speed->model), BLOCK_TOKENS,
                                         speed->cache_dtype) /
                     BLOCK_TOKENS;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        const struct cell *cell = &cells[i];
        if (speed->cell_set == CELLS_LONG ? cell->set != CELLS_LONG : cell->set > speed->cell_set)
            continue;
        printf(", \"%s\": %.2f", cell->name, tokens_per_second(speed, cell));
        unsigned long long bytes = weights + cell->context * cache;
        if (cell->context)
            printf(", \"%s_bytes\": %llu", cell->name, bytes);
        fflush(stdout);
    }
}

static enum cache_dtype parse_dtype(const char *name)
{
    return strcmp(name, "f32") == 0    ? CACHE_F32
           : strcmp(name, "bf16") == 0 ? CACHE_BF16
           : strcmp(name, "int8") == 0 ? CACHE_INT8
           : strcmp(name, "e4m3") == 0 ? CACHE_E4M3
                                       : CACHE_F16;
}

/* A last argument that begins with the flag is taken off. */
static const char *take_last(int *argc, char **argv, const char *flag, const char *otherwise)
{
    const size_t length = strlen(flag);
    if (*argc < 2 || strncmp(argv[*argc - 1], flag, length) != 0)
        return otherwise;
    return argv[--*argc] + length;
}

int main(int argc, char **argv)
{
    gguf_files_init();
    static struct speed speed;
    speed.device_name = take_last(&argc, argv, "--device=", "cpu");
    speed.kernels_name = take_last(&argc, argv, "--kernels=", NULL);
    const char *activations = take_last(&argc, argv, "--block-activations=", "int16");
    speed.activations = strcmp(activations, "int8") == 0 ? BLOCK_ACTIVATIONS_INT8
                                                         : BLOCK_ACTIVATIONS_INT16;
    if (argc < 2) {
        fprintf(stderr,
                "usage: model_bench FOLDER [N_THREADS] [f32|bf16|f16|int8|e4m3] [auto|int8|...] "
                "[compute|bf16|fp16] [quick|full|long] [--block-activations=int8] [--kernels=NAME] "
                "[--device=NAME]\n");
        return 2;
    }
    uint32_t n_threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    const char *cache = argc > 3 ? argv[3] : "f16";
    const char *weights = argc > 4 ? argv[4] : "auto";
    const char *math = argc > 5 ? argv[5] : "compute";
    speed.context_math = parse_math(math);
    static const char *const sets[] = {"quick", "full", "long"};
    speed.cell_set = (enum cell_set)parse_word("cells", argc > 6 ? argv[6] : "full", sets, 3);
    speed_open(&speed, argv[1], n_threads, parse_dtype(cache), parse_weights(weights));
    printf("{\"device\": \"%s\", \"kernels\": \"%s\", \"threads\": %u, \"cache\": \"%s\", "
           "\"weights\": \"%s\", "
           "\"attention\": \"%s\", \"weight_bytes\": %llu, \"read_gbs\": %.2f",
           speed.device_name, model_kernels(speed.model)->name, n_threads, cache, weights, math,
           (unsigned long long)weight_bytes_read(speed.model), speed.machine.read_peak);
    prefill(&speed, 0, FIRST_TOKENS);
    printf(", \"first_token_s\": %.3f",
           (double)(clock_now_ns() - speed.start_ns) / (double)NS_PER_S);
    print_cells(&speed);
    printf("}\n");
    speed_close(&speed);
    return 0;
}
