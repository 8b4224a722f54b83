/* dispatch of a beam search: one Decode call for all choices, which is asked again elsewhere until its replies have come, and leaves
 * nothing behind however it ends. The worker is a server that answers as the test says. */
#include "base/clock.h"
#include "process/adapter_codec.h"
#include "router/dispatch/dispatch.h"
#include "router/dispatch/dispatch_parts.h"
#include "rpc/server/server.h"
#include "sampling_params/sampling_codec.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CHOICES = 3, N_BEAMS = 4, N_WORKERS = 2, REPLY_TOKENS = 5000 };

#define STOP    KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP
#define WAIT_NS (20 * NS_PER_S) /* reached only by a failure */

/* How a worker answers its next call. */
enum answer { ANSWERS, LIES, LACKS_BLOCKS, LACKS_ADAPTER, SAYS_NOTHING, IS_OLDER, HOLDS };

struct worker {
    struct rpc_server *server;
    struct rpc_channel *channel;
    atomic_int answer; /* enum answer */
    atomic_uint n_calls;
    struct rpc_call *_Atomic held;
    struct beam_params asked; /* by the last call */
    float temperature;
    struct adapter_id adapter;
};

static const struct adapter_id LAW = {.name = "law", .digest = {1, 2}}; /* all workers have it */

struct rig {
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_client *client;
    struct worker workers[N_WORKERS];
    struct metrics *registry;
    struct router_metrics metrics;
    struct tokenizer *tokenizer;
    struct dispatch *dispatch;
    struct door_double call;
};

static struct rig rig;
static uint32_t ids[REPLY_TOKENS];

static void send_replies(struct rpc_call *call, uint32_t n)
{
    Kvferry__Internal__V1__DecodeResponse response = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    Kvferry__Internal__V1__BeamReply replies[N_CHOICES], *list[N_CHOICES];
    for (uint32_t i = 0; i < n; i++) {
        kvferry__internal__v1__beam_reply__init(&replies[i]);
        replies[i].token_ids = ids;
        replies[i].n_token_ids = REPLY_TOKENS - i;
        replies[i].score = -1.5f - (float)i;
        replies[i].finish_reason = STOP;
        list[i] = &replies[i];
    }
    response.n_beam_replies = n;
    response.beam_replies = list;
    response.finish_reason = STOP;
    if (rpc_call_send(call, &response.base) == STATUS_OK)
        rpc_call_finish(call);
}

static void decode(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct worker *worker = arg;
    const Kvferry__Internal__V1__DecodeRequest
        *request = (const Kvferry__Internal__V1__DecodeRequest *)message;
    struct sampling_params params = SAMPLING_GREEDY;
    struct token_rules rules;
    struct error error;
    if (sampling_message_decode(request->sampling, request->ruled_sampling, UINT32_MAX, &params,
                                &rules, &error) != STATUS_OK) {
        rpc_call_fail_status(call, STATUS_INVALID_ARGUMENT, "%s", error.text);
        return;
    }
    worker->asked = params.beams;
    worker->temperature = params.temperature;
    if (adapter_decode(request->adapter, &error, &worker->adapter) != STATUS_OK ||
        adapter_id_is_none(&worker->adapter) !=
            !(request->ruled_sampling && request->ruled_sampling->adapted_sampling)) {
        rpc_call_fail_status(call, STATUS_BUG, "an adapter is without its sampling");
        return;
    }
    atomic_fetch_add(&worker->n_calls, 1);
    const int answer = worker->answer;
    switch (answer) {
    case ANSWERS:
        send_replies(call, params.beams.n_best);
        break;
    case LIES:
        send_replies(call, params.beams.n_best - 1);
        break;
    case LACKS_BLOCKS:
        rpc_call_fail_status(call, STATUS_NO_BLOCKS, "no blocks");
        break;
    case LACKS_ADAPTER:
        rpc_call_fail_status(call, STATUS_ADAPTER_MISMATCH, "adapter law is not here");
        break;
    case SAYS_NOTHING:
        rpc_call_finish(call);
        break;
    case IS_OLDER:
        rpc_call_fail_status(call, STATUS_INVALID_ARGUMENT, "sampling is absent");
        break;
    case HOLDS:
        worker->held = rpc_call_share(call);
        break;
    }
}

static const struct rpc_method METHODS[] = {
    {.path = "/kvferry.internal.v1.GenerationWorkerService/Decode",
     .kind = RPC_SERVER_STREAM,
     .request = &kvferry__internal__v1__decode_request__descriptor,
     .response = &kvferry__internal__v1__decode_response__descriptor,
     .handler = decode}};

static void start_worker(struct worker *worker)
{
    const struct rpc_service service = {.name = "kvferry.internal.v1.GenerationWorkerService",
                                        .methods = METHODS,
                                        .n_methods = 1,
                                        .arg = worker};
    const struct worker_report ready = {.is_ready = true,
                                        .n_blocks = 64,
                                        .blocks_usable = 64,
                                        .n_adapters = 1,
                                        .adapters = {adapter_id_key(&LAW)}};
    struct error error = {""};
    char address[32];
    uint32_t number;
    cr_assert_eq(rpc_server_create(rig.server_runtime, "127.0.0.1:0", &service, 1, NULL, &error,
                                   &worker->server),
                 STATUS_OK, "%s", error.text);
    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(worker->server));
    cr_assert_eq(rpc_channel_open(rig.client, address, &worker->channel), STATUS_OK);
    cr_assert_eq(
        dispatch_add_worker(rig.dispatch, WORKER_GENERATION, address, worker->channel, &number),
        STATUS_OK);
    dispatch_report(rig.dispatch, number, &ready);
}

static void open_rig(void)
{
    struct error error = {""};
    memset(&rig, 0, sizeof rig);
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &error, &rig.tokenizer),
                 STATUS_OK);
    for (uint32_t i = 0; i < REPLY_TOKENS; i++)
        ids[i] = 100 + i % 500;
    cr_assert_eq(metrics_create("router", &rig.registry), STATUS_OK);
    router_metrics_create(&rig.metrics, rig.registry);
    const struct dispatch_options options = {.core = {.workers_max = 4,
                                                      .requests_max = 2,
                                                      .attempts_max = 2,
                                                      .prefixes_max = 16,
                                                      .prompt_tokens_max = 1000,
                                                      .block_tokens = 16,
                                                      .wait_max = 0,
                                                      .local_prefill = true},
                                             .metrics = &rig.metrics};
    cr_assert_eq(dispatch_create(&options, &error, &rig.dispatch), STATUS_OK, "%s", error.text);
    dispatch_step(rig.dispatch, clock_now_ns());
    cr_assert_eq(rpc_runtime_create("server", NULL, &rig.server_runtime), STATUS_OK);
    cr_assert_eq(rpc_runtime_create("client", NULL, &rig.client_runtime), STATUS_OK);
    cr_assert_eq(rpc_client_create(rig.client_runtime, NULL, &rig.client), STATUS_OK);
    for (uint32_t i = 0; i < N_WORKERS; i++)
        start_worker(&rig.workers[i]);
    door_double_init(&rig.call, "search");
    rig.call.is_counting = true;
}

/* What is left would be a leak, or an assertion of dispatch. */
static void close_rig(void)
{
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        rpc_call_release(rig.workers[i].held);
        rpc_channel_close(rig.workers[i].channel);
    }
    rpc_client_destroy(rig.client);
    for (uint32_t i = 0; i < N_WORKERS; i++)
        rpc_server_destroy(rig.workers[i].server);
    dispatch_destroy(rig.dispatch);
    rpc_runtime_destroy(rig.client_runtime);
    rpc_runtime_destroy(rig.server_runtime);
    metrics_destroy(rig.registry);
    tokenizer_destroy(rig.tokenizer);
    cr_expect_eq(rig.call.n_holders, 1);
}

TestSuite(dispatch_beams, .init = open_rig, .fini = close_rig);

static enum status ask_with(uint32_t n_choices, const struct adapter_id *adapter)
{
    struct generation *generation = generation_create(&rig.call.base, NULL, clock_now_ns());
    cr_assert_not_null(generation);
    generation->token_ids = calloc(20, sizeof *generation->token_ids);
    generation->n_tokens = 20;
    generation->n_choices = n_choices;
    generation->adapter = *adapter;
    generation->skip_special = true;
    snprintf(generation->request_id, sizeof generation->request_id, "search");
    struct sampling_params *params = &generation->sampling.params;
    *params = SAMPLING_GREEDY;
    params->max_tokens = REPLY_TOKENS;
    params->beams = (struct beam_params){
        .n_beams = N_BEAMS, .n_best = n_choices, .length_penalty = 0.5f};
    cr_assert_eq(generation_prepare(generation, rig.tokenizer), STATUS_OK);
    enum status status = dispatch_start(rig.dispatch, generation);
    if (status != STATUS_OK)
        generation_destroy(generation);
    return status;
}

static enum status ask(uint32_t n_choices)
{
    return ask_with(n_choices, &(struct adapter_id){.name = ""});
}

static void pause_briefly(void)
{
    (void)poll(NULL, 0, 2);
}

static uint32_t n_calls(void)
{
    return rig.workers[0].n_calls + rig.workers[1].n_calls;
}

static void wait_calls(uint32_t n)
{
    const uint64_t until_ns = clock_now_ns() + WAIT_NS;
    while (n_calls() < n && clock_now_ns() < until_ns)
        pause_briefly();
    cr_assert_geq(n_calls(), n);
}

/* The one worker that was asked. Its count is read first: the server's thread raised it behind what
   it wrote of the call. */
static const struct worker *asked_worker(void)
{
    cr_assert_eq(n_calls(), 1);
    return &rig.workers[rig.workers[0].n_calls == 0];
}

/* No request is left; then the call is over for its client. */
static void wait_end(void)
{
    const uint64_t until_ns = clock_now_ns() + WAIT_NS;
    struct dispatch_view view = {.live = 1};
    while (view.live > 0 && clock_now_ns() < until_ns) {
        dispatch_look(rig.dispatch, &view);
        if (view.live > 0)
            pause_briefly();
    }
    cr_assert_eq(view.live, 0);
    door_double_leave(&rig.call, STATUS_OK);
}

static void set_answers(enum answer first, enum answer second)
{
    rig.workers[0].answer = first;
    rig.workers[1].answer = second;
}

Test(dispatch_beams, all_choices_are_one_call)
{
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_end();
    cr_assert_eq(rig.call.failure.status, STATUS_OK, "%s", rig.call.failure.message);
    const struct worker *worker = asked_worker();
    cr_expect_eq(worker->asked.n_beams, N_BEAMS);
    cr_expect_eq(worker->asked.n_best, N_CHOICES);
    cr_expect_eq(worker->asked.length_penalty, 0.5f);
    cr_expect_eq(worker->temperature, 0);
    for (uint32_t i = 0; i < N_CHOICES; i++) {
        const struct double_choice *choice = &rig.call.choices[i];
        cr_assert(choice->has_ended);
        cr_expect_eq(choice->n_ids, REPLY_TOKENS - i, "more elements than other answers may have");
        cr_expect_eq(choice->end.beam_score, -1.5f - (float)i);
        cr_expect_eq(choice->end.is_last, i + 1 == N_CHOICES);
    }
}

Test(dispatch_beams, one_reply_is_enough)
{
    cr_assert_eq(ask(1), STATUS_OK);
    wait_end();
    cr_expect(rig.call.choices[0].has_ended && rig.call.choices[0].end.is_last);
    cr_expect_eq(asked_worker()->asked.n_best, 1);
}

/* requests_max is 2: choices with calls of their own would have no room. */
Test(dispatch_beams, its_choices_take_one_place)
{
    set_answers(HOLDS, HOLDS);
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_calls(1);
    struct router_core_stats stats;
    router_core_read_stats(rig.dispatch->core, &stats);
    cr_expect_eq(stats.requests, 1);
    door_double_leave(&rig.call, STATUS_CANCELLED);
    wait_end();
}

Test(dispatch_beams, a_worker_without_room_is_followed_by_another)
{
    for (int first = 0; first < N_WORKERS; first++) {
        if (first > 0) {
            close_rig();
            open_rig();
        }
        set_answers(first == 0 ? LACKS_BLOCKS : ANSWERS, first == 0 ? ANSWERS : LACKS_BLOCKS);
        cr_assert_eq(ask(N_CHOICES), STATUS_OK);
        wait_end();
        cr_expect_eq(rig.call.failure.status, STATUS_OK, "%s", rig.call.failure.message);
        cr_expect(rig.call.choices[N_CHOICES - 1].has_ended);
        cr_expect_eq(rig.call.choices[0].n_ids, REPLY_TOKENS, "once");
    }
}

Test(dispatch_beams, when_all_workers_fail_the_client_hears_it_once)
{
    set_answers(LACKS_BLOCKS, LACKS_BLOCKS);
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_NO_BLOCKS);
    cr_expect_eq(rig.call.n_ends, 1);
    cr_expect_eq(n_calls(), 2);
}

Test(dispatch_beams, a_worker_at_fault_is_not_asked_again)
{
    set_answers(LIES, LIES);
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_BUG);
    cr_expect_eq(rig.call.n_ids, 0);
    cr_expect_eq(rig.call.n_ends, 1);
    cr_expect_eq(n_calls(), 1);
}

Test(dispatch_beams, a_stream_without_an_answer_is_a_fault)
{
    set_answers(SAYS_NOTHING, SAYS_NOTHING);
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_BUG);
    cr_expect_eq(rig.call.n_ends, 1);
}

Test(dispatch_beams, a_worker_of_an_earlier_version_is_named_by_the_field)
{
    set_answers(IS_OLDER, IS_OLDER);
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_UNSUPPORTED);
    cr_expect(strstr(rig.call.failure.message, "sampling.beam_width is not supported"), "%s",
              rig.call.failure.message);
}

Test(dispatch_beams, have_their_adapter)
{
    cr_assert_eq(ask_with(N_CHOICES, &LAW), STATUS_OK);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_OK, "%s", rig.call.failure.message);
    cr_expect(adapter_id_equal(&asked_worker()->adapter, &LAW));
    cr_expect_eq(asked_worker()->asked.n_beams, N_BEAMS);
}

/* Both have told that they have it. */
Test(dispatch_beams, an_adapter_that_went_meanwhile_is_named)
{
    set_answers(LACKS_ADAPTER, LACKS_ADAPTER);
    cr_assert_eq(ask_with(N_CHOICES, &LAW), STATUS_OK);
    wait_end();
    cr_expect_eq(n_calls(), 2);
    cr_expect_eq(rig.call.failure.status, STATUS_MODEL_NOT_FOUND);
    cr_expect(strstr(rig.call.failure.message, "\"law\" is an adapter that no worker has"), "%s",
              rig.call.failure.message);
}

Test(dispatch_beams, a_worker_of_a_version_without_adapters_is_named)
{
    set_answers(IS_OLDER, IS_OLDER);
    cr_assert_eq(ask_with(N_CHOICES, &LAW), STATUS_OK);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_UNSUPPORTED);
    cr_expect(strstr(rig.call.failure.message, "model, an adapter, is not supported"), "%s",
              rig.call.failure.message);
}

Test(dispatch_beams, a_client_that_leaves_ends_the_call)
{
    set_answers(HOLDS, HOLDS);
    cr_assert_eq(ask(N_CHOICES), STATUS_OK);
    wait_calls(1);
    door_double_leave(&rig.call, STATUS_TIMED_OUT);
    wait_end();
    cr_expect_eq(rig.call.failure.status, STATUS_TIMED_OUT);
    for (uint32_t i = 0; i < N_CHOICES; i++)
        cr_expect_not(rig.call.choices[i].has_ended);
}
