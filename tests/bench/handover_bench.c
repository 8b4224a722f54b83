/*
 * handover_bench - what splitting a request over two workers costs, and how many small calls the
 * router answers.
 *
 *     handover_bench handover SPLIT_ROUTER_PORT SINGLE_ROUTER_PORT N_PROMPT_TOKENS N_PAIRS
 *     handover_bench tokenize ROUTER_PORT CONCURRENCY SECONDS
 *
 * handover alternates the same prompt (fresh salt each time, so that no prefix cache helps) between
 * a split pair and a single worker, and compares medians of the time to the second token, which needs the KV, less the time that the
 * prompt's steps took: two processes compute the same prompt at speeds that differ by more than a hand-over takes. One line of JSON.
 */
#include "base/clock.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "rpc/client/client.h"
#include "tests/e2e/support/client.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    uint64_t first_us, second_us;
    uint64_t beyond_us; /* of second_us, without the prompt's steps */
    uint64_t kv_bytes;
};

static bool measure(struct client *client, const uint32_t *prompt, uint32_t n, uint64_t salt,
                    struct sample *sample_out)
{
    char salt_text[32];
    snprintf(salt_text, sizeof salt_text, "%lu", (unsigned long)salt);
    struct generation generation = {
        .tokens = prompt, .n_tokens = n, .max_tokens = 2, .ignore_eos = true, .salt = salt_text};
    client_start(client, &generation);
    if (!client_wait(client, &generation, 60000) || generation.error.status != STATUS_OK) {
        fprintf(stderr, "request failed: %s\n", generation.error.message);
        return false;
    }
    sample_out->first_us = generation.first_token_us;
    sample_out->second_us = (generation.ended_ns - generation.started_ns) / NS_PER_US;
    sample_out->beyond_us = sample_out->second_us - generation.prefill_us;
    sample_out->kv_bytes = generation.kv_bytes_received;
    return true;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

enum { FIRST, SECOND, BEYOND, N_TIMES };

static int handover(char **argv)
{
    uint32_t n_tokens = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t n_pairs = (uint32_t)strtoul(argv[3], NULL, 10);
    struct client *clients[2];
    uint64_t *times[2][N_TIMES], medians[2][N_TIMES];
    for (int i = 0; i < 2; i++)
        clients[i] = client_create((uint16_t)strtoul(argv[i], NULL, 10));
    for (int i = 0; i < 2 * N_TIMES; i++)
        times[i / N_TIMES][i % N_TIMES] = calloc(n_pairs, sizeof(uint64_t));
    uint32_t *prompt = calloc(n_tokens, sizeof *prompt);
    prompt_tokens(7, prompt, n_tokens);

    enum { WARM_UP = 5 };
    uint64_t kv_bytes = 0;
    for (uint32_t pair = 0; pair < n_pairs + WARM_UP; pair++)
        for (uint32_t i = 0; i < 2; i++) {
            struct sample sample;
            if (!measure(clients[i], prompt, n_tokens, pair, &sample))
                return 1;
            if (pair < WARM_UP)
                continue;
            times[i][FIRST][pair - WARM_UP] = sample.first_us;
            times[i][SECOND][pair - WARM_UP] = sample.second_us;
            times[i][BEYOND][pair - WARM_UP] = sample.beyond_us;
            if ((sample.kv_bytes != 0) != (i == 0))
                return fprintf(stderr, "KV of %lu bytes crossed to worker %u\n",
                               (unsigned long)sample.kv_bytes, i),
                       1;
            if (i == 0)
                kv_bytes = sample.kv_bytes;
        }
    for (int i = 0; i < 2 * N_TIMES; i++)
        medians[i / N_TIMES][i % N_TIMES] = median(times[i / N_TIMES][i % N_TIMES], n_pairs);
    printf("{\"bench\": \"handover\", \"prompt_tokens\": %u, \"pairs\": %u, \"kv_bytes\": %lu",
           n_tokens, n_pairs, (unsigned long)kv_bytes);
    for (int i = 0; i < 2; i++) {
        const char *who = i == 0 ? "split" : "single";
        printf(", \"%s_first_us\": %lu, \"%s_second_us\": %lu, \"%s_beyond_prompt_us\": %lu", who,
               (unsigned long)medians[i][FIRST], who, (unsigned long)medians[i][SECOND], who,
               (unsigned long)medians[i][BEYOND]);
    }
    printf(", \"overhead_us\": %ld}\n", (long)medians[0][BEYOND] - (long)medians[1][BEYOND]);
    for (int i = 0; i < 2; i++)
        client_destroy(clients[i]);
    for (int i = 0; i < 2 * N_TIMES; i++)
        free(times[i / N_TIMES][i % N_TIMES]);
    free(prompt);
    return 0;
}

/* ---- small unary calls ---- */

struct load {
    struct rpc_channel *channel;
    struct rpc_request request;
    uint64_t until_ns;
    atomic_uint n_live;
    atomic_ulong n_done, n_failed;
};

static void start_one(struct load *load);

static void on_end(void *arg, const struct rpc_error *error)
{
    struct load *load = arg;
    atomic_fetch_add(error->status == STATUS_OK ? &load->n_done : &load->n_failed, 1);
    if (clock_now_ns() < load->until_ns)
        start_one(load);
    else
        atomic_fetch_sub(&load->n_live, 1);
}

static void start_one(struct load *load)
{
    load->request.deadline_ns = clock_now_ns() + 10 * NS_PER_S;
    if (rpc_channel_start(load->channel, &load->request, NULL) != STATUS_OK) {
        atomic_fetch_add(&load->n_failed, 1);
        atomic_fetch_sub(&load->n_live, 1);
    }
}

static int tokenize(char **argv)
{
    uint32_t concurrency = (uint32_t)strtoul(argv[1], NULL, 10);
    uint64_t seconds = strtoull(argv[2], NULL, 10);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[0]);
    struct rpc_runtime *runtime;
    struct rpc_client *client;
    struct load load = {0};
    if (rpc_runtime_create("bench", NULL, &runtime) != STATUS_OK ||
        rpc_client_create(runtime, NULL, &client) != STATUS_OK ||
        rpc_channel_open(client, address, &load.channel) != STATUS_OK)
        return 1;
    Kvferry__V1__TokenizeRequest message = KVFERRY__V1__TOKENIZE_REQUEST__INIT;
    static char text[] = "In the beginning God created the heaven and the earth.";
    message.text = (ProtobufCBinaryData){sizeof text - 1, (uint8_t *)text};
    load.request = (struct rpc_request){
        .path = "/kvferry.v1.GenerationService/Tokenize",
        .message = &message.base,
        .response = &kvferry__v1__tokenize_response__descriptor,
        .on_end = on_end,
        .arg = &load,
    };
    uint64_t started_ns = clock_now_ns();
    load.until_ns = started_ns + seconds * NS_PER_S;
    atomic_store(&load.n_live, concurrency);
    for (uint32_t i = 0; i < concurrency; i++)
        start_one(&load);
    while (atomic_load(&load.n_live) > 0)
        (void)poll(NULL, 0, 1);
    double elapsed_s = (double)(clock_now_ns() - started_ns) / (double)NS_PER_S;
    printf("{\"bench\": \"tokenize\", \"concurrency\": %u, \"calls_per_s\": %.0f, "
           "\"failed\": %lu}\n",
           concurrency, (double)atomic_load(&load.n_done) / elapsed_s,
           (unsigned long)atomic_load(&load.n_failed));
    rpc_channel_close(load.channel);
    rpc_client_destroy(client);
    rpc_runtime_destroy(runtime);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "handover") == 0)
        return handover(argv + 2);
    if (argc == 5 && strcmp(argv[1], "tokenize") == 0)
        return tokenize(argv + 2);
    fprintf(stderr, "usage: see the head of handover_bench.c\n");
    return 2;
}
