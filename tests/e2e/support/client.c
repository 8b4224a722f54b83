#include "client.h"

#include "base/clock.h"
#include "base/random.h"
#include "dial.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "text.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_DEFAULT_MS 60000u

struct client {
    struct dial dial;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

struct client *client_create(uint16_t grpc_port)
{
    signal(SIGPIPE, SIG_IGN);
    struct client *client = calloc(1, sizeof *client);
    cr_assert_not_null(client);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    dial_open(&client->dial, "e2e client", grpc_port);
    return client;
}

void client_destroy(struct client *client)
{
    dial_close(&client->dial);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->mutex);
    free(client);
}

static void take_timing(struct generation *generation, const Kvferry__V1__Timing *timing)
{
    generation->kv_bytes_received = timing->kv_bytes_received;
    generation->kv_tokens_received = timing->kv_tokens_received;
    generation->kv_tokens_recomputed = timing->kv_tokens_recomputed;
    generation->prefill_us = timing->prefill_us;
    generation->first_token_us = timing->first_token_us;
    snprintf(generation->context_worker, sizeof generation->context_worker, "%s",
             timing->context_worker);
    snprintf(generation->generation_worker, sizeof generation->generation_worker, "%s",
             timing->generation_worker);
    snprintf(generation->transport, sizeof generation->transport, "%s", timing->transport);
}

/* text_out stays terminated, too. */
static void take_text(struct generation *generation, const ProtobufCBinaryData *text)
{
    size_t room = sizeof generation->text_out - 1 - generation->n_text_out;
    size_t n = text->len < room ? text->len : room;
    if (n > 0)
        memcpy(generation->text_out + generation->n_text_out, text->data, n);
    generation->n_text_out += n;
}

static void take_progress(struct generation *generation,
                          const Kvferry__V1__GenerateResponse *response)
{
    const Kvferry__V1__PromptProgress *progress = response->prompt_progress;
    if (!progress)
        return;
    cr_assert(response->n_token_ids == 0 && response->text.len == 0 && !response->usage);
    generation->has_late_progress |= generation->n_generated > 0;
    generation->progress_tokens = progress->prompt_tokens;
    if (generation->n_progress < PROGRESS_MAX)
        generation->progress[generation->n_progress++] = progress->done_tokens;
}

static void take_score(struct client_score *score, const Kvferry__V1__TokenLogprobs *told)
{
    memset(score, 0, sizeof *score);
    cr_assert_leq(told->n_top, SCORE_TOP_MAX);
    score->logprob = told->logprob;
    score->n_top = (uint32_t)told->n_top;
    for (size_t i = 0; i < told->n_top; i++) {
        score->ids[i] = told->top[i]->token_id;
        score->top[i] = told->top[i]->logprob;
    }
}

static void take_scores(struct generation *generation,
                        const Kvferry__V1__GenerateResponse *response)
{
    const size_t n = response->n_prompt_logprobs;
    if (n == 0)
        return;
    cr_assert(response->n_token_ids == 0 && response->text.len == 0 && !response->usage);
    cr_assert_not_null(generation->scores, "nobody asked");
    cr_assert_leq(generation->n_scored + n, generation->n_tokens);
    generation->has_late_scores |= generation->n_generated > 0 || response->index > 0;
    for (size_t i = 0; i < n; i++)
        take_score(&generation->scores[generation->n_scored++], response->prompt_logprobs[i]);
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct generation *generation = arg;
    const Kvferry__V1__GenerateResponse *response = (const Kvferry__V1__GenerateResponse *)message;
    pthread_mutex_lock(&generation->client->mutex);
    generation->n_messages++;
    for (size_t i = 0; i < response->n_token_ids; i++)
        if (generation->n_generated < TOKENS_MAX)
            generation->generated[generation->n_generated++] = response->token_ids[i];
    take_progress(generation, response);
    take_scores(generation, response);
    take_text(generation, &response->text);
    if (response->finish_reason)
        generation->finish_reason = (int)response->finish_reason;
    if (response->usage) {
        generation->prompt_tokens = response->usage->prompt_tokens;
        generation->cached_tokens = response->usage->cached_tokens;
        generation->usage_generated = response->usage->generated_tokens;
    }
    if (response->timing)
        take_timing(generation, response->timing);
    bool cancels = generation->n_messages == generation->cancel_after_messages;
    struct rpc_client_call *call = generation->call;
    pthread_cond_broadcast(&generation->client->changed);
    pthread_mutex_unlock(&generation->client->mutex);
    if (cancels)
        rpc_client_call_cancel(call);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct generation *generation = arg;
    pthread_mutex_lock(&generation->client->mutex);
    generation->n_ends++;
    generation->error = *error;
    generation->ended_ns = clock_now_ns();
    generation->is_live = false;
    pthread_cond_broadcast(&generation->client->changed);
    pthread_mutex_unlock(&generation->client->mutex);
}

static void start_call(struct client *client, struct generation *generation,
                       const Kvferry__V1__GenerateRequest *message)
{
    uint32_t limit_ms = generation->deadline_ms ? generation->deadline_ms : DEADLINE_DEFAULT_MS;
    char authorization[128];
    snprintf(authorization, sizeof authorization, "Bearer %s",
             generation->token ? generation->token : "");
    struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Generate",
        .message = &message->base,
        .response = &kvferry__v1__generate_response__descriptor,
        .is_stream = true,
        .deadline_ns = clock_now_ns() + limit_ms * NS_PER_MS,
        .on_message = on_message,
        .on_end = on_end,
        .arg = generation,
        .headers = {{"authorization", authorization}},
        .n_headers = generation->token != NULL,
    };
    cr_assert_eq(rpc_channel_start(client->dial.channel, &request, &generation->call), STATUS_OK);
}

void client_start(struct client *client, struct generation *generation)
{
    generation->client = client;
    generation->is_live = true;
    generation->started_ns = clock_now_ns();

    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = generation->max_tokens;
    sampling
        .temperature_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    sampling.temperature = generation->temperature;
    sampling.seed_presence_case = KVFERRY__V1__SAMPLING_PARAMS__SEED_PRESENCE_SEED;
    sampling.seed = generation->seed;
    sampling.ignore_eos = generation->ignore_eos;
    sampling.n = generation->n_choices;
    if (generation->scores) {
        sampling.prompt_logprobs_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
        sampling.prompt_logprobs = generation->n_top;
    }
    ProtobufCBinaryData stop = text_of(generation->stop ? generation->stop : "");
    sampling.stop = &stop;
    sampling.n_stop = generation->stop ? 1 : 0;

    Kvferry__V1__TokenIds ids = KVFERRY__V1__TOKEN_IDS__INIT;
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    if (generation->text) {
        message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
        message.text = text_of(generation->text);
        if (generation->n_text > 0)
            message.text.len = generation->n_text;
    } else {
        ids.n_ids = generation->n_tokens;
        ids.ids = (uint32_t *)generation->tokens;
        message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
        message.token_ids = &ids;
    }
    message.sampling = &sampling;
    message.return_timing = true;
    message.return_progress = generation->return_progress;
    if (generation->model)
        message.model = (char *)generation->model;
    if (generation->salt)
        message.cache_salt = (char *)generation->salt;
    if (generation->has_priority) {
        message.priority_presence_case = KVFERRY__V1__GENERATE_REQUEST__PRIORITY_PRESENCE_PRIORITY;
        message.priority = generation->priority;
    }
    if (generation->request_id)
        message.request_id = (char *)generation->request_id;
    start_call(client, generation, &message);
}

void client_cancel(struct generation *generation)
{
    rpc_client_call_cancel(generation->call);
}

/* Waits until n_messages have come or the generation has ended. */
static bool wait_until(struct client *client, struct generation *generation, uint32_t n_messages,
                       uint32_t limit_ms)
{
    uint64_t until_ns = clock_now_ns() + limit_ms * NS_PER_MS;
    struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};
    pthread_mutex_lock(&client->mutex);
    int timed_out = 0;
    while (generation->is_live && generation->n_messages < n_messages && timed_out == 0)
        timed_out = pthread_cond_timedwait(&client->changed, &client->mutex, &until);
    bool came = !generation->is_live || generation->n_messages >= n_messages;
    pthread_mutex_unlock(&client->mutex);
    return came;
}

bool client_wait(struct client *client, struct generation *generation, uint32_t limit_ms)
{
    if (!wait_until(client, generation, UINT32_MAX, limit_ms))
        return false;
    rpc_client_call_release(generation->call);
    generation->call = NULL;
    return true;
}

bool client_wait_messages(struct client *client, struct generation *generation, uint32_t n_messages,
                          uint32_t limit_ms)
{
    return wait_until(client, generation, n_messages, limit_ms);
}

void client_run(struct client *client, struct generation *generation)
{
    client_start(client, generation);
    cr_assert(client_wait(client, generation, 120000), "no end");
    cr_assert_eq(generation->n_ends, 1);
    cr_assert_eq(generation->error.status, STATUS_OK, "%s", generation->error.message);
}

void prompt_tokens(uint64_t seed, uint32_t *tokens_out, uint32_t n)
{
    /* Byte tokens of the demo model (0 .. 255) and its merges; never a special token. */
    struct random random;
    random_init(&random, seed);
    for (uint32_t i = 0; i < n; i++)
        tokens_out[i] = (uint32_t)(random_below(&random, 2046));
}
