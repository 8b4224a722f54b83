/*
 * encoder_bench - speed of an encoder, and of a decoder behind it: tokens a second.
 *
 *     encoder_bench MODEL [N_THREADS] [N_TOKENS of the text]
 *
 * Default: 2, 512. A text with the K and V that it makes for the decoder's layers, then replies of one sequence to it; of a model
 * without an encoder, a prompt of as many tokens in one chunk, for comparison. The cache is F16. The best of RUNS counts.
 *
 * One line of JSON.
 */
#include "base/clock.h"
#include "model/config/encoder_config.h"
#include "model/config/families.h"
#include "model/forward/forward.h"
#include "model/kernel_choice.h"
#include "tests/bench/machine.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK_TOKENS = 32, REPLY_TOKENS = 64, RUNS = 5 };

struct speed {
    struct bench machine;
    struct device *device;
    struct model *model;
    struct block_pool *pool;
    struct forward *forward;
    uint32_t n_tokens, n_blocks; /* of the text; blocks: as many again for the reply */
    uint32_t *token_ids;         /* [n_tokens + REPLY_TOKENS] */
    block_id *blocks;            /* [2 n_blocks] */
    float *logits;
};

static void check(enum status status, const struct error *error)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "encoder_bench: %s %s\n", status_name(status), error ? error->text : "");
    exit(1);
}

static void speed_open(struct speed *speed, const char *folder, uint32_t n_threads)
{
    struct error error = {""};
    bench_open(n_threads, true, &speed->machine);
    check(device_open("cpu", &speed->device, &error), &error);
    check(kernel_choice_load(speed->device, &error), &error);
    const struct model_options load = {.threads = speed->machine.pool, .device = speed->device};
    check(model_load(folder, &load, &error, &speed->model), &error);
    const struct model_config *config = model_get_config(speed->model);
    const uint32_t n_all = speed->n_tokens + REPLY_TOKENS;
    speed->n_blocks = (n_all + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    const struct forward_options options = {
        .block_tokens = BLOCK_TOKENS,
        .cache_dtype = CACHE_F16,
        .tokens_max = speed->n_tokens,
        .sequences_max = 1,
        .blocks_max = speed->n_blocks,
        .encoder_tokens_max = speed->n_tokens,
        .threads = speed->machine.pool,
        .device = speed->device,
    };
    check(block_pool_create(2 * speed->n_blocks,
                            forward_block_bytes(config, BLOCK_TOKENS, CACHE_F16), &speed->pool),
          NULL);
    check(forward_create(speed->model, &options, &error, &speed->forward), &error);
    check(forward_warm_up(speed->forward), NULL);
    check(forward_attach(speed->forward, speed->pool, &error), &error);
    speed->blocks = calloc(2 * (size_t)speed->n_blocks, sizeof *speed->blocks);
    speed->token_ids = calloc(n_all, sizeof *speed->token_ids);
    speed->logits = calloc(config->vocabulary, sizeof *speed->logits);
    if (!speed->blocks || !speed->token_ids || !speed->logits)
        check(STATUS_NO_MEMORY, NULL);
    check(block_pool_acquire(speed->pool, 2 * speed->n_blocks, speed->blocks), NULL);
    for (uint32_t i = 0; i < n_all; i++)
        speed->token_ids[i] = i * 7919u % config->vocabulary;
}

static void speed_close(struct speed *speed)
{
    forward_destroy(speed->forward);
    block_pool_release(speed->pool, speed->blocks, 2 * speed->n_blocks);
    block_pool_destroy(speed->pool);
    model_destroy(speed->model);
    device_close(speed->device);
    bench_close(&speed->machine);
    free(speed->blocks);
    free(speed->token_ids);
    free(speed->logits);
}

/* ---- what is measured ---- */

static void encode(struct speed *speed)
{
    const struct forward_text text = {.token_ids = speed->token_ids,
                                      .n_tokens = speed->n_tokens,
                                      .cross_blocks = speed->blocks,
                                      .n_cross_blocks = speed->n_blocks};
    check(forward_encode(speed->forward, &text, 1), NULL);
}

static void prefill(struct speed *speed)
{
    const struct forward_sequence sequence = {.token_ids = speed->token_ids,
                                              .n_query = speed->n_tokens,
                                              .prompt_len = speed->n_tokens,
                                              .blocks = speed->blocks,
                                              .n_blocks = speed->n_blocks,
                                              .wants_logits = true};
    check(forward_run(speed->forward, &sequence, 1, 1, speed->logits), NULL);
}

/* Behind the text, or behind the prompt. */
static void reply(struct speed *speed)
{
    const bool is_behind = model_has_encoder(model_get_config(speed->model));
    for (uint32_t i = 0; i < REPLY_TOKENS; i++) {
        const struct forward_sequence sequence = {
            .token_ids = speed->token_ids + i,
            .n_query = 1,
            .n_past = is_behind ? i : speed->n_tokens + i,
            .blocks = is_behind ? speed->blocks + speed->n_blocks : speed->blocks,
            .n_blocks = speed->n_blocks,
            .wants_logits = true,
            .cross_blocks = speed->blocks,
            .n_cross_blocks = speed->n_blocks,
            .n_cross_tokens = speed->n_tokens,
        };
        check(forward_run(speed->forward, &sequence, 1, 0, speed->logits), NULL);
    }
}

static double tokens_per_second(struct speed *speed, void (*run)(struct speed *speed), uint32_t n)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < RUNS; i++) {
        const uint64_t start_ns = clock_now_ns();
        run(speed);
        const uint64_t took = clock_now_ns() - start_ns;
        least = took < least ? took : least;
    }
    return n * (double)NS_PER_S / (double)least;
}

int main(int argc, char **argv)
{
    struct speed speed = {.n_tokens = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 512};
    if (argc < 2 || speed.n_tokens == 0) {
        fprintf(stderr, "usage: encoder_bench MODEL [N_THREADS] [N_TOKENS]\n");
        return 2;
    }
    speed_open(&speed, argv[1], argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2);
    const bool has_encoder = model_has_encoder(model_get_config(speed.model));
    const double text = tokens_per_second(&speed, has_encoder ? encode : prefill, speed.n_tokens);
    printf("{\"model\": \"%s\", \"tokens\": %u, \"%s_tokens_per_second\": %.0f, ",
           model_family_name(model_get_config(speed.model)->family), speed.n_tokens,
           has_encoder ? "encode" : "prefill", text);
    printf("\"reply_tokens_per_second\": %.1f}\n", tokens_per_second(&speed, reply, REPLY_TOKENS));
    speed_close(&speed);
    return 0;
}
