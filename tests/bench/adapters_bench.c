/*
 * adapters_bench - what LoRA adapters cost: steps of a model without, and with 1, 4 and 32 of them.
 *
 *     adapters_bench MODEL ADAPTER [N_THREADS]
 *
 * A step that decodes has SEQUENCES sequences, each behind CONTEXT tokens; a prompt has PROMPT tokens. The one folder is loaded as many
 * times as there are adapters, so that each has memory of its own. Sequences with the same adapter stand side by side, as a generation
 * worker places them, and, with 4, by turns. Of RUNS the best counts; the cells take turns.
 *
 * One line of JSON: the rank, bytes of an adapter and of the weights, and the milliseconds of each cell.
 */
#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "model/adapter/adapter.h"
#include "model/forward/forward.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEQUENCES = 32, CONTEXT = 64, PROMPT = 512, BLOCK_TOKENS = 32, RUNS = 7, STEPS = 4 };
enum { BLOCKS_EACH = (CONTEXT + STEPS) / BLOCK_TOKENS + 1, BLOCKS = SEQUENCES * BLOCKS_EACH };

_Static_assert(BLOCKS *BLOCK_TOKENS >= PROMPT, "one pool serves both");

static const struct cell {
    const char *name;
    uint32_t n_adapters;
    bool by_turns, is_prompt;
} CELLS[] = {
    {"decode_0", 0, false, false},   {"decode_1", 1, false, false},
    {"decode_4", 4, false, false},   {"decode_4_by_turns", 4, true, false},
    {"decode_32", 32, false, false}, {"prompt_0", 0, false, true},
    {"prompt_1", 1, false, true},
};

enum { N_CELLS = sizeof CELLS / sizeof *CELLS };

struct cost {
    struct thread_pool *threads;
    struct device *device;
    struct model *model;
    struct adapter *adapters[SEQUENCES];
    struct block_pool *pool;
    struct forward *forward;
    block_id blocks[BLOCKS];
    uint32_t token_ids[PROMPT];
    float *logits;
};

static void check(enum status status, const struct error *error)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "adapters_bench: %s: %s\n", status_text(status), error->text);
    exit(1);
}

static void cost_open(struct cost *cost, const char *folder, const char *adapter,
                      uint32_t n_threads)
{
    struct error error = {""};
    check(thread_pool_create(n_threads, false, &cost->threads), &error);
    check(device_open("cpu", &cost->device, &error), &error);
    const struct model_options load = {.threads = cost->threads, .device = cost->device};
    check(model_load(folder, &load, &error, &cost->model), &error);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        check(adapter_load(adapter, cost->model, NULL, &error, &cost->adapters[i]), &error);
    const struct model_config *config = model_get_config(cost->model);
    check(block_pool_create(BLOCKS, forward_block_bytes(config, BLOCK_TOKENS, CACHE_BF16),
                            &cost->pool),
          &error);
    const struct forward_options options = {.block_tokens = BLOCK_TOKENS,
                                            .cache_dtype = CACHE_BF16,
                                            .tokens_max = PROMPT,
                                            .sequences_max = SEQUENCES,
                                            .blocks_max = BLOCKS,
                                            .adapter_rank_max = adapter_rank(cost->adapters[0]),
                                            .threads = cost->threads,
                                            .device = cost->device};
    check(forward_create(cost->model, &options, &error, &cost->forward), &error);
    check(forward_warm_up(cost->forward), &error);
    check(forward_attach(cost->forward, cost->pool, &error), &error);
    check(block_pool_acquire(cost->pool, BLOCKS, cost->blocks), &error);
    cost->logits = calloc((size_t)SEQUENCES * config->vocabulary, sizeof *cost->logits);
    if (!cost->logits)
        check(STATUS_NO_MEMORY, &error);
    for (uint32_t i = 0; i < PROMPT; i++)
        cost->token_ids[i] = i * 7919u % config->vocabulary;
}

static void cost_close(struct cost *cost)
{
    forward_destroy(cost->forward);
    block_pool_release(cost->pool, cost->blocks, BLOCKS);
    block_pool_destroy(cost->pool);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        adapter_release(cost->adapters[i]);
    model_destroy(cost->model);
    device_close(cost->device);
    thread_pool_destroy(cost->threads);
    free(cost->logits);
}

static const struct adapter *adapter_of(const struct cost *cost, const struct cell *cell,
                                        uint32_t sequence)
{
    if (cell->n_adapters == 0)
        return NULL;
    return cost->adapters[cell->by_turns ? sequence % cell->n_adapters
                                         : sequence * cell->n_adapters / SEQUENCES];
}

/* n_query tokens behind n_past of each sequence. */
static void decode(struct cost *cost, const struct cell *cell, uint32_t n_past, uint32_t n_query)
{
    struct error error = {""};
    struct forward_sequence sequences[SEQUENCES];
    const uint32_t n = n_query == 1 ? SEQUENCES : PROMPT / CONTEXT;
    for (uint32_t first = 0; first < SEQUENCES; first += n) {
        for (uint32_t i = 0; i < n; i++)
            sequences[i] = (struct forward_sequence){.token_ids = cost->token_ids + n_past,
                                                     .n_query = n_query,
                                                     .n_past = n_past,
                                                     .prompt_len = n_past + n_query,
                                                     .blocks = cost->blocks +
                                                               (size_t)(first + i) * BLOCKS_EACH,
                                                     .n_blocks = BLOCKS_EACH,
                                                     .wants_logits = true,
                                                     .adapter = adapter_of(cost, cell, first + i)};
        check(forward_run(cost->forward, sequences, n, n_query == 1 ? 0 : n, cost->logits), &error);
    }
}

static void prefill(struct cost *cost, const struct cell *cell)
{
    struct error error = {""};
    const struct forward_sequence sequence = {.token_ids = cost->token_ids,
                                              .n_query = PROMPT,
                                              .prompt_len = PROMPT,
                                              .blocks = cost->blocks,
                                              .n_blocks = BLOCKS,
                                              .wants_logits = true,
                                              .adapter = adapter_of(cost, cell, 0)};
    check(forward_run(cost->forward, &sequence, 1, 1, cost->logits), &error);
}

/* Of a step. */
static uint64_t run_ns(struct cost *cost, const struct cell *cell)
{
    if (!cell->is_prompt)
        decode(cost, cell, 0, CONTEXT);
    const uint64_t start_ns = clock_now_ns();
    if (cell->is_prompt)
        prefill(cost, cell);
    for (uint32_t i = 0; !cell->is_prompt && i < STEPS; i++)
        decode(cost, cell, CONTEXT + i, 1);
    return (clock_now_ns() - start_ns) / (cell->is_prompt ? 1 : STEPS);
}

int main(int argc, char **argv)
{
    static struct cost cost;
    uint64_t best_ns[N_CELLS];
    if (argc < 3) {
        fprintf(stderr, "usage: adapters_bench MODEL ADAPTER [N_THREADS]\n");
        return 2;
    }
    cost_open(&cost, argv[1], argv[2], argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2);
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < N_CELLS; i++) {
            const uint64_t ns = run_ns(&cost, &CELLS[i]);
            best_ns[i] = run == 0 || ns < best_ns[i] ? ns : best_ns[i];
        }
    printf("{\"rank\": %u, \"adapter_bytes\": %llu, \"weight_bytes\": %llu",
           adapter_rank(cost.adapters[0]), (unsigned long long)adapter_bytes(cost.adapters[0]),
           (unsigned long long)model_weight_bytes(cost.model));
    for (int i = 0; i < N_CELLS; i++)
        printf(", \"%s_ms\": %.3f", CELLS[i].name, (double)best_ns[i] / (double)NS_PER_MS);
    printf("}\n");
    cost_close(&cost);
    return 0;
}
