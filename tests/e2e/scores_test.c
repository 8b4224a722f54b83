/* A prompt's log-probabilities: those of Transformers, each once and before the first token, the same bits where the prompt is computed
 * in one process, in two, beside a cache that has it, behind pauses, and when a worker dies while it tells them. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/client.h"
#include "support/command.h"
#include "support/dial.h"
#include "support/raw_generate.h"
#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LONG = 1900, N_NEW = 3, N_TOP = 5 };

#define GOLDEN_FOLDER KVFERRY_SOURCE_DIR "/tests/golden/models"

/* As of logits in tests/model/forward/forward_golden_test.c, and what bfloat16 makes of them (model/demo/README.md). */
#define F32_TOLERANCE  1e-3
#define BF16_TOLERANCE 0.08

/* Chunks of 16 tokens; nothing is so short that it is computed at the generation worker. */
#define SMALL_CHUNKS                                                                               \
    "--prefill-chunk-tokens", "16", "--prefill-batch-tokens", "16", "--kv-block-tokens", "16"
static const char *const CHUNKS[] = {SMALL_CHUNKS, NULL};
static const char *const EXACT[] = {"--prefill-chunk-tokens", "64", "--kv-dtype", "f32", NULL};
static const char *const SHORT_TOO[] = {"--local-prefill-max-tokens", "8", NULL};

struct asked {
    struct generation generation;
    struct client_score scores[N_LONG];
};

static void set(struct asked *asked, const uint32_t *tokens, uint32_t n)
{
    memset(asked, 0, sizeof *asked);
    cr_assert_leq(n, N_LONG);
    asked->generation.tokens = tokens;
    asked->generation.n_tokens = n;
    asked->generation.max_tokens = N_NEW;
    asked->generation.ignore_eos = true;
    asked->generation.scores = asked->scores;
    asked->generation.n_top = N_TOP;
}

static void check(const struct asked *asked)
{
    const struct generation *generation = &asked->generation;
    cr_assert_eq(generation->n_ends, 1);
    cr_assert_eq(generation->error.status, STATUS_OK, "%s", generation->error.message);
    cr_assert_eq(generation->n_scored, generation->n_tokens);
    cr_assert_not(generation->has_late_scores);
    cr_assert_eq(generation->cached_tokens, 0, "it is computed whole");
    cr_assert(asked->scores[0].n_top == 0 && asked->scores[0].logprob == 0);
    for (uint32_t i = 1; i < generation->n_tokens; i++)
        cr_assert_eq(asked->scores[i].n_top, generation->n_top);
}

static void expect_equal(const struct asked *one, const struct asked *other)
{
    check(one);
    check(other);
    cr_assert_eq(one->generation.n_scored, other->generation.n_scored);
    cr_assert_arr_eq(one->scores, other->scores, one->generation.n_scored * sizeof *one->scores);
    cr_assert_eq(one->generation.n_generated, other->generation.n_generated);
    cr_assert_arr_eq(one->generation.generated, other->generation.generated,
                     one->generation.n_generated * sizeof(uint32_t));
}

/* ---- one cluster ---- */

struct place {
    struct cluster cluster;
    struct client *client;
};

static void place_open(struct place *place, const struct cluster_options *options)
{
    cluster_start(&place->cluster, options);
    place->client = client_create(place->cluster.router.grpc);
}

static void place_close(struct place *place)
{
    cluster_wait_quiet(&place->cluster);
    client_destroy(place->client);
    cluster_stop(&place->cluster);
}

static void run(struct place *place, struct asked *asked)
{
    client_run(place->client, &asked->generation);
    check(asked);
}

static double prompts_at(const struct place *place, const char *where)
{
    return child_metric(&place->cluster.generations[0], "kvferry_prompts_total", where);
}

/* Of a prompt alone in one process. */
static const struct asked *alone(uint32_t n)
{
    static struct asked asked;
    static uint32_t tokens[N_LONG];
    struct place place;
    prompt_tokens(n, tokens, n);
    set(&asked, tokens, n);
    place_open(&place, &(struct cluster_options){.n_generations = 1});
    run(&place, &asked);
    place_close(&place);
    return &asked;
}

/* ---- Transformers ---- */

static double worst_of(const struct asked *asked, const json_t *rows)
{
    double worst = 0;
    cr_assert_eq(json_array_size(rows) + 1, asked->generation.n_scored);
    for (uint32_t i = 1; i < asked->generation.n_scored; i++) {
        const json_t *row = json_array_get(rows, i - 1), *top = json_object_get(row, "top");
        const struct client_score *score = &asked->scores[i];
        worst = fmax(
            worst, fabs((double)score->logprob - json_real_value(json_object_get(row, "logprob"))));
        for (uint32_t k = 0; k < N_TOP;
             k++) /* likeliest ones that are as likely may change places */
            worst = fmax(worst,
                         fabs((double)score->top[k] - json_real_value(json_array_get(top, k))));
    }
    return worst;
}

/* In both places, of which the second one hands over. */
static void check_golden(struct place places[2], const json_t *golden, double tolerance)
{
    static struct asked asked[2];
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        uint32_t n, *ids = golden_ids(json_object_get(entry, "prompt_ids"), &n);
        for (uint32_t k = 0; k < 2; k++) {
            set(&asked[k], ids, n);
            run(&places[k], &asked[k]);
        }
        expect_equal(&asked[0], &asked[1]);
        cr_assert_eq(asked[1].generation.kv_bytes_received > 0, n > 8, "%s", name);
        const double worst = worst_of(&asked[1], json_object_get(entry, "scores"));
        printf("%-12s %4u tokens, largest error %.1e\n", name, n, worst);
        cr_assert_leq(worst, tolerance, "%s: %g", name, worst);
        free(ids);
    }
    cr_assert_eq(i, 5);
}

Test(scores, are_those_of_transformers_in_one_process_and_in_two)
{
    json_t *golden = golden_json(GOLDEN_FOLDER, "scores.json");
    for (int is_exact = 0; is_exact < 2; is_exact++) {
        const char *const *both = is_exact ? EXACT : NULL;
        struct place places[2];
        place_open(&places[0], &(struct cluster_options){.n_generations = 1, .both = both});
        place_open(&places[1],
                   &(struct cluster_options){
                       .n_contexts = 1, .n_generations = 1, .both = both, .generation = SHORT_TOO});
        check_golden(places, golden, is_exact ? F32_TOLERANCE : BF16_TOLERANCE);
        place_close(&places[0]);
        place_close(&places[1]);
    }
    json_decref(golden);
}

/* ---- the most there are ---- */

static void on_complete(void *arg, const ProtobufCMessage *message)
{
    const Kvferry__V1__CompleteResponse *response = (const Kvferry__V1__CompleteResponse *)message;
    struct asked *asked = arg;
    cr_assert_eq(response->n_prompt_logprobs, asked->generation.n_tokens);
    for (size_t i = 0; i < response->n_prompt_logprobs; i++) {
        const Kvferry__V1__TokenLogprobs *told = response->prompt_logprobs[i];
        struct client_score *score = &asked->scores[i];
        cr_assert_leq(told->n_top, SCORE_TOP_MAX);
        score->logprob = told->logprob;
        score->n_top = (uint32_t)told->n_top;
        for (size_t k = 0; k < told->n_top; k++) {
            score->ids[k] = told->top[k]->token_id;
            score->top[k] = told->top[k]->logprob;
        }
    }
}

static void complete(const struct place *place, struct asked *asked)
{
    struct dial dial;
    struct rpc_error error;
    Kvferry__V1__TokenIds ids = KVFERRY__V1__TOKEN_IDS__INIT;
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    ids.ids = (uint32_t *)asked->generation.tokens;
    ids.n_ids = asked->generation.n_tokens;
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = 1;
    sampling.prompt_logprobs_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
    sampling.prompt_logprobs = asked->generation.n_top;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    message.token_ids = &ids;
    message.sampling = &sampling;
    const struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Complete",
        .message = &message.base,
        .response = &kvferry__v1__complete_response__descriptor,
        .elements_max = 2 * N_LONG * (1 + SCORE_TOP_MAX),
        .deadline_ns = clock_now_ns() + 60 * NS_PER_S,
        .on_message = on_complete,
        .arg = asked,
    };
    dial_open(&dial, "scores", place->cluster.router.grpc);
    cr_assert_eq(rpc_channel_call_wait(dial.channel, &request, &error), STATUS_OK, "%s",
                 error.message);
    dial_close(&dial);
}

/* By a text about as long. */
static void generate(const struct place *place)
{
    static char text[N_LONG + 1];
    memset(text, 'a', N_LONG);
    for (size_t i = 0; i + 3 < N_LONG; i += 4)
        memcpy(text + i, (const char *[]){"q7x ", "zw! ", "J#k ", "vv0 "}[i / 4 % 4], 4);
    RUN("generate", text, "--server", address_of(place->cluster.router.grpc), "--max-tokens", "2",
        "--prompt-logprobs", "20");
    EXPECT_OK();
    cr_assert_eq(strlen(last_command.err), COMMAND_TEXT_MAX - 1, "more than is looked at");
}

Test(scores, with_the_most_likeliest_tokens_of_a_long_prompt_reach_each_client,
     .init = command_folder_make, .fini = command_folder_remove)
{
    static struct asked asked[2], whole;
    static uint32_t tokens[N_LONG];
    prompt_tokens(5, tokens, N_LONG);
    for (uint32_t i = 0; i < 2; i++) {
        struct place place;
        set(&asked[i], tokens, N_LONG);
        asked[i].generation.n_top = SCORE_TOP_MAX;
        place_open(&place, &(struct cluster_options){.n_contexts = i, .n_generations = 1});
        run(&place, &asked[i]);
        set(&whole, tokens, N_LONG);
        whole.generation.n_top = SCORE_TOP_MAX;
        complete(&place, &whole);
        cr_assert_arr_eq(whole.scores, asked[i].scores, sizeof whole.scores);
        generate(&place);
        place_close(&place);
    }
    expect_equal(&asked[0], &asked[1]);
}

/* ---- caches, choices ---- */

Test(scores, are_the_same_where_the_prompt_is_cached_and_for_several_choices)
{
    enum { N = 300 };
    static struct asked cold, again, three, plain;
    const struct asked *expected = alone(N);
    struct place place;
    place_open(&place, &(struct cluster_options){.n_contexts = 1, .n_generations = 1});
    set(&cold, expected->generation.tokens, N);
    again = three = plain = cold;
    again.generation.scores = again.scores;
    three.generation.scores = three.scores;
    plain.generation.scores = NULL;

    cold.generation.scores = cold.scores;
    run(&place, &cold);
    cr_assert_gt(cold.generation.kv_bytes_received, 0);
    expect_equal(expected, &cold);
    client_run(place.client, &plain.generation);
    cr_assert_gt(plain.generation.cached_tokens, 0, "others use its blocks");
    cr_assert_eq(plain.generation.n_scored, 0);
    cr_assert_arr_eq(plain.generation.generated, cold.generation.generated,
                     N_NEW * sizeof(uint32_t));
    run(&place, &again);
    expect_equal(expected, &again);
    cr_assert_gt(again.generation.kv_bytes_received, 0, "it is computed and crosses again");

    three.generation.n_choices = 3;
    client_run(place.client, &three.generation);
    cr_assert_eq(three.generation.n_generated, 3 * N_NEW);
    cr_assert_eq(three.generation.n_scored, N, "the prompt is that of all");
    cr_assert_not(three.generation.has_late_scores);
    cr_assert_arr_eq(three.scores, expected->scores, N * sizeof *three.scores);
    place_close(&place);
}

/* ---- pauses ---- */

static void run_paused(uint32_t n_contexts)
{
    enum { N_REQUESTS = 6, N = 60 };
    static const char *const SMALL[] = {"--kv-blocks",
                                        "40",
                                        "--capacity-policy",
                                        "max-utilization",
                                        "--capacity-headroom-blocks",
                                        "1",
                                        SMALL_CHUNKS,
                                        "--local-prefill-max-tokens",
                                        "8",
                                        NULL};
    static struct asked asked[N_REQUESTS];
    const struct asked *expected = alone(N);
    struct place place;
    place_open(&place, &(struct cluster_options){.n_contexts = n_contexts,
                                                 .n_generations = 1,
                                                 .context = CHUNKS,
                                                 .generation = SMALL});
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        set(&asked[i], expected->generation.tokens, N);
        asked[i].generation.max_tokens = 160;
        asked[i].generation.salt = (const char *const[]){"a", "b", "c", "d", "e", "f"}[i];
        client_start(place.client, &asked[i].generation);
    }
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        cr_assert(client_wait(place.client, &asked[i].generation, 120000), "request %u", i);
        cr_assert_eq(asked[i].generation.error.status, STATUS_OK);
        cr_assert_eq(asked[i].generation.n_scored, N);
        cr_assert_not(asked[i].generation.has_late_scores);
        cr_assert_arr_eq(asked[i].scores, expected->scores, N * sizeof *asked[i].scores);
    }
    cr_assert_gt(child_metric(&place.cluster.generations[0], "kvferry_decode_pauses_total", ""), 0);
    place_close(&place);
}

Test(scores, are_told_once_whatever_is_paused)
{
    run_paused(0);
    run_paused(1);
}

/* ---- workers that die ---- */

/* Kills it when some are told, and waits for the end. */
static void run_and_kill(struct place *place, struct asked *asked, struct child *victim)
{
    client_start(place->client, &asked->generation);
    cr_assert(client_wait_messages(place->client, &asked->generation, 2, 60000));
    child_kill(victim);
    const uint32_t n_told = asked->generation.n_scored;
    cr_assert(client_wait(place->client, &asked->generation, 120000), "no end");
    printf("%u of %u were told\n", n_told, asked->generation.n_tokens);
    cr_assert(n_told > 0 && n_told < asked->generation.n_tokens, "it was not midway");
}

Test(scores, go_on_when_the_context_worker_dies_midway)
{
    static struct asked asked;
    const struct asked *expected = alone(N_LONG);
    struct place place;
    place_open(&place,
               &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .both = CHUNKS});
    set(&asked, expected->generation.tokens, N_LONG);
    run_and_kill(&place, &asked, &place.cluster.contexts[0]);
    expect_equal(expected, &asked);
    cr_assert_eq(prompts_at(&place, "hand_over_failed"), 1);
    place_close(&place);
}

Test(scores, go_on_at_another_generation_worker)
{
    static struct asked asked;
    const struct asked *expected = alone(N_LONG);
    struct place place;
    place_open(&place, &(struct cluster_options){.n_generations = 2, .both = CHUNKS});
    set(&asked, expected->generation.tokens, N_LONG);
    client_start(place.client, &asked.generation);
    cr_assert(client_wait_messages(place.client, &asked.generation, 2, 60000));
    const uint32_t n_told = asked.generation.n_scored;
    const bool is_second = child_metric(&place.cluster.generations[1], "kvferry_kv_blocks",
                                        "state=\"active\"") > 0;
    child_kill(&place.cluster.generations[is_second]);
    cr_assert(client_wait(place.client, &asked.generation, 120000), "no end");
    cr_assert(n_told > 0 && n_told < N_LONG, "it was not midway");
    expect_equal(expected, &asked);
    place_close(&place);
}

/* ---- readers ---- */

Test(scores, that_nobody_reads_end_their_request)
{
    enum { N_CALLS = 16 };
    static const char *const ROUTER[] = {"--stream-buffer-bytes-max", "4096", NULL};
    struct place place;
    char text[2000];
    int calls[N_CALLS];
    size_t at = 0;
    while (at + 40 < sizeof text)
        at += (size_t)snprintf(text + at, 40, "In the beginning %zu ", at);
    place_open(&place, &(struct cluster_options){
                           .n_contexts = 1, .n_generations = 1, .both = CHUNKS, .router = ROUTER});
    for (uint32_t i = 0; i < N_CALLS; i++)
        calls[i] = raw_score_start(&place.cluster, text);
    requests_wait_ended(&place.cluster, N_CALLS);
    cr_assert_eq(requests_ended(&place.cluster, "SLOW_READER"), N_CALLS);
    for (uint32_t i = 0; i < N_CALLS; i++)
        close(calls[i]);
    place_close(&place);
}

/* ---- workers of an earlier version ---- */

Test(scores, are_not_asked_of_a_worker_of_an_earlier_version)
{
    enum { N = 300 };
    static struct asked asked;
    const struct asked *expected = alone(N);
    struct place place;
    place_open(&place, &(struct cluster_options){.n_generations = 1,
                                                 .first_generation_binary = BEFORE_BINARY});
    set(&asked, expected->generation.tokens, N);
    client_start(place.client, &asked.generation);
    cr_assert(client_wait(place.client, &asked.generation, 60000));
    cr_assert_eq(asked.generation.error.status, STATUS_UNSUPPORTED, "%s",
                 asked.generation.error.message);
    cr_assert_not_null(
        strstr(asked.generation.error.message, "sampling.prompt_logprobs is not supported"));
    cr_assert_eq(asked.generation.n_scored, 0);
    asked.generation.scores = NULL;
    asked.generation.n_ends = 0;
    client_run(place.client, &asked.generation);
    place_close(&place);

    place_open(&place, &(struct cluster_options){.n_contexts = 1,
                                                 .n_generations = 1,
                                                 .first_context_binary = BEFORE_BINARY});
    set(&asked, expected->generation.tokens, N);
    run(&place, &asked);
    expect_equal(expected, &asked);
    cr_assert_eq(prompts_at(&place, "hand_over_failed"), 1);
    place_close(&place);
}
