/* Beam search of a whole cluster: the n best replies come with scores that do not rise, are the same split and single, by a stream, in one
 * message and over HTTP, bit for bit, also with stop strings; fewer are the first of more; a client that leaves leaves nothing. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/dial.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <jansson.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N_PROMPT = 200, N_TOKENS = 24, N_BEAMS = 4 };

#define LIMIT_NS (60 * NS_PER_S)

struct beam_out {
    uint32_t ids[N_TOKENS], n_ids;
    char text[2048];
    size_t n_text;
    float score;
    Kvferry__V1__FinishReason reason;
    bool has_ended, is_stopped; /* by a stop string */
};

struct answer {
    struct beam_out beams[N_BEAMS];
    uint64_t kv_bytes;
    struct rpc_error error;
    sem_t ended;
};

static struct cluster cluster;
static struct dial router;
static uint32_t prompt[N_PROMPT];
static char model[8];            /* of requests: "", or an adapter that the workers then have */
static ProtobufCBinaryData stop; /* of requests, behind one that never comes; without bytes: none */
static bool keeps_stop;

static void open_cluster_of(uint32_t n_contexts, const char *const *generation)
{
    static const char *const http[] = {"--http-address", "127.0.0.1:0", NULL};
    static const char *const adapters[] = {
        "--adapter", "a=" KVFERRY_SOURCE_DIR "/tests/golden/adapters/demo", NULL};
    const struct cluster_options options = {.n_contexts = n_contexts,
                                            .n_generations = 1,
                                            .both = model[0] ? adapters : NULL,
                                            .router = http,
                                            .generation = generation};
    cluster_start(&cluster, &options);
    prompt_tokens(3, prompt, N_PROMPT);
    dial_open(&router, "beams", cluster.router.grpc);
}

static void open_cluster(uint32_t n_contexts)
{
    open_cluster_of(n_contexts, NULL);
}

static void close_cluster(void)
{
    cluster_wait_quiet(&cluster);
    dial_close(&router);
    cluster_stop(&cluster);
}

static void add(struct beam_out *beam, const uint32_t *ids, size_t n,
                const ProtobufCBinaryData *text)
{
    cr_assert_leq(beam->n_ids + n, N_TOKENS);
    cr_assert_lt(beam->n_text + text->len, sizeof beam->text);
    if (n > 0)
        memcpy(beam->ids + beam->n_ids, ids, n * sizeof *ids);
    if (text->len > 0)
        memcpy(beam->text + beam->n_text, text->data, text->len);
    beam->n_ids += (uint32_t)n;
    beam->n_text += text->len;
}

static bool is_stop(const ProtobufCBinaryData *text)
{
    return text->len == stop.len && memcmp(text->data, stop.data, stop.len) == 0;
}

/* What a message, and a choice of one, has at its end. */
#define TAKE_END(beam, message)                                                                    \
    do {                                                                                           \
        (beam)->has_ended = true;                                                                  \
        (beam)->score = (message)->beam_score;                                                     \
        (beam)->reason = (message)->finish_reason;                                                 \
        cr_expect_neq((int)(message)->beam_score_presence_case, 0);                                \
        cr_expect_eq((message)->usage->generated_tokens, (beam)->n_ids);                           \
        (beam)->is_stopped = (int)(message)->matched_stop_case ==                                  \
                             KVFERRY__V1__GENERATE_RESPONSE__MATCHED_STOP_STOP_STRING;             \
        cr_expect(!(beam)->is_stopped || is_stop(&(message)->stop_string));                        \
    } while (0)

static void on_piece(void *arg, const ProtobufCMessage *message)
{
    struct answer *answer = arg;
    const Kvferry__V1__GenerateResponse *piece = (const Kvferry__V1__GenerateResponse *)message;
    cr_assert_lt(piece->index, N_BEAMS);
    struct beam_out *beam = &answer->beams[piece->index];
    add(beam, piece->token_ids, piece->n_token_ids, &piece->text);
    if (!piece->finish_reason)
        return;
    TAKE_END(beam, piece);
    answer->kv_bytes = piece->timing->kv_bytes_received;
}

static void on_whole(void *arg, const ProtobufCMessage *message)
{
    struct answer *answer = arg;
    const Kvferry__V1__CompleteResponse *whole = (const Kvferry__V1__CompleteResponse *)message;
    add(&answer->beams[0], whole->token_ids, whole->n_token_ids, &whole->text);
    TAKE_END(&answer->beams[0], whole);
    answer->kv_bytes = whole->timing->kv_bytes_received;
    for (size_t i = 0; i < whole->n_more_choices; i++) {
        const Kvferry__V1__CompleteChoice *one = whole->more_choices[i];
        cr_assert_lt(one->index, N_BEAMS);
        add(&answer->beams[one->index], one->token_ids, one->n_token_ids, &one->text);
        TAKE_END(&answer->beams[one->index], one);
    }
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct answer *answer = arg;
    answer->error = *error;
    sem_post(&answer->ended);
}

static struct rpc_client_call *start_of(struct answer *answer, bool is_stream, uint32_t n_beams,
                                        uint32_t n)
{
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    Kvferry__V1__TokenIds ids = KVFERRY__V1__TOKEN_IDS__INIT;
    struct rpc_client_call *call;
    ProtobufCBinaryData stops[] = {{3, (uint8_t *)"~~~"}, stop};
    memset(answer, 0, sizeof *answer);
    sem_init(&answer->ended, 0, 0);
    ids.ids = prompt;
    ids.n_ids = N_PROMPT;
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = N_TOKENS;
    sampling.beam_width = n_beams;
    sampling.n = n;
    sampling.stop = stops;
    sampling.n_stop = stop.len > 0 ? 2 : 0;
    sampling.include_stop_str_in_output = keeps_stop;
    message.sampling = &sampling;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    message.token_ids = &ids;
    message.return_timing = true;
    message.model = model;
    const struct rpc_request request = {
        .path = is_stream ? "/kvferry.v1.GenerationService/Generate"
                          : "/kvferry.v1.GenerationService/Complete",
        .message = &message.base,
        .response = is_stream ? &kvferry__v1__generate_response__descriptor
                              : &kvferry__v1__complete_response__descriptor,
        .is_stream = is_stream,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
        .on_message = is_stream ? on_piece : on_whole,
        .on_end = on_end,
        .arg = answer,
    };
    cr_assert_eq(rpc_channel_start(router.channel, &request, &call), STATUS_OK);
    return call;
}

static struct rpc_client_call *start(struct answer *answer, bool is_stream, uint32_t n)
{
    return start_of(answer, is_stream, N_BEAMS, n);
}

static void finish(struct answer *answer, struct rpc_client_call *call, uint32_t n)
{
    while (sem_wait(&answer->ended) != 0) /* EINTR */
        ;
    rpc_client_call_release(call);
    cr_assert_eq(answer->error.status, STATUS_OK, "%s", answer->error.message);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(answer->beams[i].has_ended && answer->beams[i].n_ids > 0);
        cr_expect(i == 0 || answer->beams[i].score <= answer->beams[i - 1].score);
    }
}

static void ask(struct answer *answer, bool is_stream, uint32_t n)
{
    struct rpc_client_call *call = start(answer, is_stream, n);
    finish(answer, call, n);
}

static void expect_equal(const struct answer *one, const struct answer *other, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct beam_out *a = &one->beams[i], *b = &other->beams[i];
        cr_assert_eq(a->n_ids, b->n_ids, "reply %u", i);
        cr_expect_arr_eq(a->ids, b->ids, a->n_ids * sizeof *a->ids);
        cr_expect(a->score == b->score, "%g, %g", (double)a->score, (double)b->score);
        cr_expect_eq(a->reason, b->reason);
        cr_assert_eq(a->n_text, b->n_text);
        cr_expect_arr_eq(a->text, b->text, a->n_text);
    }
}

/* ---- over HTTP ---- */

/* The caller frees. */
static char *post(uint16_t port, const char *body)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    static const char form[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: application/json\r\nConnection: close\r\n"
                               "Content-Length: %zu\r\n\r\n%s";
    enum { ROOM = 1 << 18 };
    char *bytes = malloc(ROOM);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bytes && fd >= 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    int n = snprintf(bytes, ROOM, form, strlen(body), body);
    cr_assert(n > 0 && n < ROOM && send(fd, bytes, (size_t)n, MSG_NOSIGNAL) == n);
    size_t at = 0;
    for (ssize_t got; at < ROOM - 1 && (got = recv(fd, bytes + at, ROOM - 1 - at, 0)) > 0;)
        at += (size_t)got;
    bytes[at] = '\0';
    close(fd);
    return bytes;
}

static void ask_http(struct answer *answer, const char *beams)
{
    char body[4096];
    int n = snprintf(body, sizeof body,
                     "{%s, \"max_tokens\": %d, \"return_token_ids\": true, "
                     "\"prompt\": [",
                     beams, N_TOKENS);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, "%s%u", i ? "," : "", prompt[i]);
    snprintf(body + n, sizeof body - (size_t)n, "]}");
    char *reply = post(cluster.router.http, body);
    const char *json = strstr(reply, "\r\n\r\n");
    cr_assert_not_null(json, "%s", reply);
    json_t *root = json_loads(json + 4, 0, NULL);
    const json_t *choices = json_object_get(root, "choices");
    cr_assert_eq(json_array_size(choices), N_BEAMS, "%s", reply);
    memset(answer, 0, sizeof *answer);
    for (uint32_t i = 0; i < N_BEAMS; i++) {
        const json_t *choice = json_array_get(choices, i);
        const json_t *ids = json_object_get(choice, "token_ids");
        const json_t *text = json_object_get(choice, "text");
        const ProtobufCBinaryData bytes = {json_string_length(text),
                                           (uint8_t *)json_string_value(text)};
        for (size_t t = 0; t < json_array_size(ids); t++) {
            const uint32_t id = (uint32_t)json_integer_value(json_array_get(ids, t));
            add(&answer->beams[i], &id, 1, &(const ProtobufCBinaryData){0});
        }
        add(&answer->beams[i], NULL, 0, &bytes);
        answer->beams[i].score = (float)json_real_value(json_object_get(choice, "beam_score"));
        const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
        answer->beams[i].reason = strcmp(reason, "length") == 0
                                      ? KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH
                                      : KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
    }
    json_decref(root);
    free(reply);
}

/* ---- the tests ---- */

Test(beams, are_the_same_split_and_single_and_by_every_door)
{
    static struct answer single, split, whole, fewer, vllm, own;
    open_cluster(0);
    ask(&single, true, N_BEAMS);
    close_cluster();
    open_cluster(1);
    ask(&split, true, N_BEAMS);
    cr_expect_gt(split.kv_bytes, 0, "the prompt's KV came from the context worker");
    ask(&whole, false, N_BEAMS);
    ask(&fewer, true, 2);
    ask_http(&vllm, "\"use_beam_search\": true, \"n\": 4");
    ask_http(&own, "\"beam_width\": 4, \"n\": 4");
    expect_equal(&split, &single, N_BEAMS);
    expect_equal(&whole, &single, N_BEAMS);
    expect_equal(&fewer, &single, 2);
    expect_equal(&vllm, &single, N_BEAMS);
    expect_equal(&own, &single, N_BEAMS);
    for (uint32_t i = 1; i < N_BEAMS; i++)
        cr_expect(single.beams[i].n_ids != single.beams[0].n_ids ||
                  memcmp(single.beams[i].ids, single.beams[0].ids,
                         single.beams[0].n_ids * sizeof(uint32_t)) != 0);
    close_cluster();
}

/* ---- stop strings ---- */

/* Part of the best reply's text, so that beams have it. */
static void choose_stop(const struct answer *free, size_t n_behind)
{
    static uint8_t text[3];
    const struct beam_out *best = &free->beams[0];
    cr_assert_gt(best->n_text, n_behind + sizeof text);
    memcpy(text, best->text + best->n_text - n_behind - sizeof text, sizeof text);
    stop = (ProtobufCBinaryData){sizeof text, text};
}

/* Returns how many the stop string has ended. */
static uint32_t expect_stopped(const struct answer *answer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_BEAMS; i++) {
        const struct beam_out *beam = &answer->beams[i];
        cr_expect_null(memmem(beam->text, beam->n_text, stop.data, stop.len), "reply %u", i);
        cr_expect(!beam->is_stopped ||
                  beam->reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
        n += beam->is_stopped;
    }
    return n;
}

static void expect_kept(const struct answer *kept, const struct answer *cut)
{
    for (uint32_t i = 0; i < N_BEAMS; i++) {
        const struct beam_out *a = &kept->beams[i], *b = &cut->beams[i];
        const size_t n_more = b->is_stopped ? stop.len : 0;
        cr_assert_eq(a->n_text, b->n_text + n_more, "reply %u", i);
        cr_expect_arr_eq(a->text, b->text, b->n_text);
        cr_expect_arr_eq(a->text + b->n_text, (const char *)stop.data, n_more);
        cr_expect_eq(a->n_ids, b->n_ids);
        cr_expect(a->score == b->score);
    }
}

Test(beams, with_a_stop_string_are_the_same_split_and_single_and_end_before_it)
{
    static struct answer without, single, split, whole, kept, http;
    char members[96];
    open_cluster(0);
    ask(&without, true, N_BEAMS);
    choose_stop(&without, without.beams[0].n_text / 2);
    ask(&single, true, N_BEAMS);
    cr_expect_gt(expect_stopped(&single), 0, "'%.3s' in '%s'", (const char *)stop.data,
                 without.beams[0].text);
    close_cluster();
    open_cluster(1);
    ask(&split, true, N_BEAMS);
    cr_expect_gt(split.kv_bytes, 0, "the prompt's KV came from the context worker");
    ask(&whole, false, N_BEAMS);
    keeps_stop = true;
    ask(&kept, false, N_BEAMS);
    snprintf(members, sizeof members, "\"beam_width\": 4, \"n\": 4, \"stop\": [\"~~~\", \"%.3s\"]",
             (const char *)stop.data);
    ask_http(&http, members);
    expect_equal(&split, &single, N_BEAMS);
    expect_equal(&whole, &single, N_BEAMS);
    expect_equal(&http, &single, N_BEAMS);
    expect_kept(&kept, &single);
    close_cluster();
}

Test(beams, a_client_that_leaves_leaves_nothing)
{
    static struct answer answer;
    open_cluster(1);
    for (int i = 0; i < 5; i++) {
        struct rpc_client_call *call = start(&answer, true, N_BEAMS);
        rpc_client_call_cancel(call);
        while (sem_wait(&answer.ended) != 0)
            ;
        rpc_client_call_release(call);
    }
    close_cluster();
}

/* Searches of several widths, each of a prompt of its own. */
static void ask_all(struct answer answers[N_BEAMS - 1], bool at_once)
{
    struct rpc_client_call *calls[N_BEAMS - 1];
    for (uint32_t i = 0; i < N_BEAMS - 1; i++) {
        prompt_tokens(10 + i, prompt, N_PROMPT);
        calls[i] = start_of(&answers[i], true, 2 + i, 2);
        if (!at_once)
            finish(&answers[i], calls[i], 2);
    }
    for (uint32_t i = 0; at_once && i < N_BEAMS - 1; i++)
        finish(&answers[i], calls[i], 2);
}

Test(beams, of_several_widths_are_the_same_in_company_and_after_pauses)
{
    static const char *const small[] = {"--kv-blocks",
                                        "44",
                                        "--capacity-policy",
                                        "max-utilization",
                                        "--capacity-headroom-blocks",
                                        "0",
                                        "--prefix-cache=off",
                                        NULL};
    static struct answer alone[N_BEAMS - 1], together[N_BEAMS - 1];
    open_cluster(0);
    ask_all(alone, false);
    choose_stop(&alone[N_BEAMS - 2], 0); /* late, so that replies stay long */
    ask_all(alone, false);
    cr_expect(alone[N_BEAMS - 2].beams[0].is_stopped);
    close_cluster();
    open_cluster_of(1, small);
    double n_pauses = 0;
    for (int round = 0; round < 10 && n_pauses == 0; round++) {
        ask_all(together, true);
        for (uint32_t i = 0; i < N_BEAMS - 1; i++)
            expect_equal(&together[i], &alone[i], 2);
        n_pauses = child_metric(&cluster.generations[0], "kvferry_decode_pauses_total", "");
    }
    cr_expect_gt(n_pauses, 0);
    cr_expect_gt(child_metric(&cluster.generations[0], "kvferry_kv_transfer_bytes_total", ""), 0);
    close_cluster();
}

/* Each beam has it, also in tokens that are computed again. */
Test(beams, with_an_adapter_are_the_same_split_and_single_and_after_pauses)
{
    static const char *const small[] = {"--kv-blocks",
                                        "44",
                                        "--capacity-policy",
                                        "max-utilization",
                                        "--capacity-headroom-blocks",
                                        "0",
                                        "--prefix-cache=off",
                                        NULL};
    static struct answer without, single, split, http, alone[N_BEAMS - 1], together[N_BEAMS - 1];
    open_cluster(0);
    ask(&without, true, N_BEAMS);
    close_cluster();
    snprintf(model, sizeof model, "a");
    open_cluster(0);
    ask(&single, true, N_BEAMS);
    ask_all(alone, false);
    close_cluster();
    cr_expect_neq(memcmp(single.beams[0].ids, without.beams[0].ids, sizeof single.beams[0].ids), 0);
    open_cluster(1);
    ask(&split, true, N_BEAMS);
    cr_expect_gt(split.kv_bytes, 0);
    expect_equal(&split, &single, N_BEAMS);
    ask_http(&http, "\"model\": \"a\", \"use_beam_search\": true, \"n\": 4");
    expect_equal(&http, &single, N_BEAMS);
    close_cluster();
    open_cluster_of(1, small);
    double n_pauses = 0;
    for (int round = 0; round < 10 && n_pauses == 0; round++) {
        ask_all(together, true);
        for (uint32_t i = 0; i < N_BEAMS - 1; i++)
            expect_equal(&together[i], &alone[i], 2);
        n_pauses = child_metric(&cluster.generations[0], "kvferry_decode_pauses_total", "");
    }
    cr_expect_gt(n_pauses, 0);
    close_cluster();
}
