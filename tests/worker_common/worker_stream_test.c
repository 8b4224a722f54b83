/* worker_stream: a call ends with the engine's last word or the refusal, and the engine learns of a reader that left before it. */
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "rpc/client/client.h"
#include "rpc/server/server.h"
#include "worker_common/worker_stream.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>

#define PATH     "/kvferry.internal.v1.ContextWorkerService/Prefill"
#define LIMIT_NS (20 * NS_PER_S)

enum answer { FINISHES, FINISHES_FIRST, REFUSES, KEEPS };

struct ends {
    enum answer answer;
    enum status status;
    const char *sentence;
    struct worker_stream *_Atomic kept;
    atomic_uint n_left, n_ended;
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_server *server;
    struct rpc_client *client;
    struct rpc_channel *channel;
};

struct stream {
    struct worker_stream base;
    struct ends *ends;
};

static void on_left(struct worker_stream *stream)
{
    atomic_fetch_add(&((struct stream *)stream)->ends->n_left, 1);
}

static void serve(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct ends *ends = arg;
    struct stream *stream = worker_stream_create(sizeof *stream, call, on_left, 7);
    (void)request;
    cr_assert_not_null(stream);
    cr_assert_eq(stream->base.arrived_ns, 7);
    stream->ends = ends;
    if (ends->answer == REFUSES) {
        worker_stream_refuse(&stream->base, ends->status, ends->sentence);
        return;
    }
    if (ends->answer == FINISHES_FIRST)
        worker_stream_finish(&stream->base, ends->status, ends->sentence);
    worker_stream_begin(&stream->base);
    if (ends->answer == FINISHES)
        worker_stream_finish(&stream->base, ends->status, ends->sentence);
    else if (ends->answer == KEEPS)
        atomic_store(&ends->kept, &stream->base);
}

static const struct rpc_method METHODS[] = {
    {.path = PATH,
     .kind = RPC_SERVER_STREAM,
     .request = &kvferry__internal__v1__prefill_request__descriptor,
     .response = &kvferry__internal__v1__prefill_response__descriptor,
     .handler = serve},
};

static void ends_open(struct ends *ends)
{
    const struct rpc_service service = {.name = "kvferry.internal.v1.ContextWorkerService",
                                        .methods = METHODS,
                                        .n_methods = 1,
                                        .arg = ends};
    struct rpc_server_options options;
    struct error error = {""};
    char address[32];
    rpc_server_options_init(&options);
    cr_assert_eq(rpc_runtime_create("server", NULL, &ends->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_runtime_create("client", NULL, &ends->client_runtime), STATUS_OK);
    cr_assert_eq(rpc_server_create(ends->server_runtime, "127.0.0.1:0", &service, 1, &options,
                                   &error, &ends->server),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(rpc_client_create(ends->client_runtime, NULL, &ends->client), STATUS_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)rpc_server_port(ends->server));
    cr_assert_eq(rpc_channel_open(ends->client, address, &ends->channel), STATUS_OK);
}

static void ends_close(struct ends *ends)
{
    rpc_channel_close(ends->channel);
    rpc_client_destroy(ends->client);
    rpc_server_destroy(ends->server);
    rpc_runtime_destroy(ends->client_runtime);
    rpc_runtime_destroy(ends->server_runtime);
}

static struct rpc_request request_of(const Kvferry__Internal__V1__PrefillRequest *message)
{
    return (struct rpc_request){
        .path = PATH,
        .message = &message->base,
        .response = &kvferry__internal__v1__prefill_response__descriptor,
        .is_stream = true,
        .wait_for_ready = true,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
    };
}

static void expect_end(enum answer answer, enum status status, const char *sentence,
                       const char *heard)
{
    struct ends ends = {.answer = answer, .status = status, .sentence = sentence};
    const Kvferry__Internal__V1__PrefillRequest message =
        KVFERRY__INTERNAL__V1__PREFILL_REQUEST__INIT;
    const struct rpc_request request = request_of(&message);
    struct rpc_error error;
    ends_open(&ends);
    cr_expect_eq(rpc_channel_call_wait(ends.channel, &request, &error), status);
    cr_expect_str_eq(error.message, heard);
    ends_close(&ends);
    cr_expect_eq(ends.n_left, 0, "the engine had the last word");
}

Test(worker_stream, a_call_ends_with_the_status_and_the_sentence_of_its_finish)
{
    expect_end(FINISHES, STATUS_OK, "", "");
    expect_end(FINISHES, STATUS_NO_BLOCKS, "no blocks here", "no blocks here");
    expect_end(FINISHES, STATUS_NO_BLOCKS, "", status_text(STATUS_NO_BLOCKS));
    expect_end(FINISHES, STATUS_NO_BLOCKS, NULL, status_text(STATUS_NO_BLOCKS));
}

Test(worker_stream, an_engine_may_finish_before_the_call_knows_that_it_was_taken)
{
    expect_end(FINISHES_FIRST, STATUS_OK, "", "");
    expect_end(FINISHES_FIRST, STATUS_TIMED_OUT, "too late", "too late");
}

Test(worker_stream, a_call_that_the_engine_did_not_take_ends_with_the_refusal)
{
    expect_end(REFUSES, STATUS_QUEUE_FULL, "all are taken", "all are taken");
    expect_end(REFUSES, STATUS_DRAINING, "", status_text(STATUS_DRAINING));
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct ends *ends = arg;
    cr_expect_eq(error->status, STATUS_CANCELLED);
    atomic_fetch_add(&ends->n_ended, 1);
}

static void wait_more(uint64_t until_ns)
{
    cr_assert_lt(clock_now_ns(), until_ns, "it does not come");
    (void)poll(NULL, 0, 1);
}

Test(worker_stream, the_engine_learns_once_of_a_reader_that_left_and_still_finishes)
{
    struct ends ends = {.answer = KEEPS};
    const Kvferry__Internal__V1__PrefillRequest message =
        KVFERRY__INTERNAL__V1__PREFILL_REQUEST__INIT;
    struct rpc_request request = request_of(&message);
    struct rpc_client_call *call;
    ends_open(&ends);
    request.on_end = on_end;
    request.arg = &ends;
    cr_assert_eq(rpc_channel_start(ends.channel, &request, &call), STATUS_OK);
    while (!atomic_load(&ends.kept))
        wait_more(request.deadline_ns);
    cr_assert_eq(ends.n_left, 0, "the reader is there");
    rpc_client_call_cancel(call);
    rpc_client_call_release(call);
    while (atomic_load(&ends.n_left) == 0)
        wait_more(request.deadline_ns);
    worker_stream_finish(atomic_load(&ends.kept), STATUS_CANCELLED, "");
    ends_close(&ends);
    cr_assert_eq(ends.n_left, 1);
    cr_assert_eq(ends.n_ended, 1);
}
