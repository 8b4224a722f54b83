/* What comes while a router still loads its tokenizer waits for it, texts as well as requests for tokens: ten restarts, and
 * nobody hears of LOADING. */

#include "base/clock.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "rpc/client/client.h"
#include "rpc/runtime/runtime.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/model_copy.h"
#include "support/ports.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* White space that the loader has to pass, so that there is a while to come in. */
#define PADDING_BYTES (16u << 20)

TestSuite(early, .init = command_folder_make, .fini = command_folder_remove);

struct text_call {
    sem_t ended;
    struct rpc_error error;
    uint32_t n_ids;
};

static void on_tokenized(void *arg, const ProtobufCMessage *message)
{
    struct text_call *call = arg;
    call->n_ids = (uint32_t)((const Kvferry__V1__TokenizeResponse *)message)->n_token_ids;
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct text_call *call = arg;
    call->error = *error;
    sem_post(&call->ended);
}

static void start_text(struct rpc_channel *channel, struct text_call *call, bool is_back)
{
    static uint32_t ids[] = {1, 2, 3};
    Kvferry__V1__TokenizeRequest there = KVFERRY__V1__TOKENIZE_REQUEST__INIT;
    Kvferry__V1__DetokenizeRequest back = KVFERRY__V1__DETOKENIZE_REQUEST__INIT;
    there.text = (ProtobufCBinaryData){5, (uint8_t *)"hello"};
    back.token_ids = ids;
    back.n_token_ids = 3;
    const struct rpc_request request = {
        .path = is_back ? "/kvferry.v1.GenerationService/Detokenize"
                        : "/kvferry.v1.GenerationService/Tokenize",
        .message = is_back ? &back.base : &there.base,
        .response = is_back ? &kvferry__v1__detokenize_response__descriptor
                            : &kvferry__v1__tokenize_response__descriptor,
        .wait_for_ready = true,
        .deadline_ns = clock_now_ns() + 60 * NS_PER_S,
        .on_message = is_back ? NULL : on_tokenized,
        .on_end = on_end,
        .arg = call,
    };
    *call = (struct text_call){0};
    sem_init(&call->ended, 0, 0);
    cr_assert_eq(rpc_channel_start(channel, &request, NULL), STATUS_OK);
}

static void expect_ok(struct text_call *call)
{
    while (sem_wait(&call->ended) != 0)
        continue;
    cr_assert_eq(call->error.status, STATUS_OK, "%s", call->error.message);
}

static void lengthen_tokenizer(void)
{
    char path[200];
    snprintf(path, sizeof path, "%s/tokenizer.json", in_folder("model"));
    FILE *file = fopen(path, "a");
    char *padding = malloc(PADDING_BYTES);
    cr_assert(file && padding);
    memset(padding, ' ', PADDING_BYTES);
    cr_assert_eq(fwrite(padding, 1, PADDING_BYTES, file), PADDING_BYTES);
    cr_assert_eq(fclose(file), 0);
    free(padding);
}

static void restart_and_ask(struct rpc_runtime *runtime, char model[])
{
    const char *const words[] = {"router",      model, ROUTER_PORTS, "--generation-workers",
                                 "127.0.0.1:1", NULL};
    static struct generation generation;
    struct child router;
    struct text_call there, back;
    struct rpc_client *calls;
    struct rpc_channel *channel;
    char address[32];
    child_start_unready(&router, in_folder(""), "router", words);
    snprintf(address, sizeof address, "127.0.0.1:%u", router.grpc);
    cr_assert_eq(rpc_client_create(runtime, NULL, &calls), STATUS_OK);
    cr_assert_eq(rpc_channel_open(calls, address, &channel), STATUS_OK);
    start_text(channel, &there, false);
    start_text(channel, &back, true);
    struct client *client = client_create(router.grpc);
    generation = (struct generation){.text = "hello", .max_tokens = 2};
    client_start(client, &generation);
    expect_ok(&there);
    cr_assert_gt(there.n_ids, 0);
    expect_ok(&back);
    child_signal(&router, SIGTERM);
    cr_assert(client_wait(client, &generation, 60000));
    cr_assert_neq(generation.error.status, STATUS_LOADING, "%s", generation.error.message);
    cr_assert_eq(child_wait(&router, 60000), 0);
    client_destroy(client);
    rpc_channel_close(channel);
    rpc_client_destroy(calls);
}

Test(early, nobody_hears_of_loading_in_ten_restarts)
{
    struct rpc_runtime *runtime;
    char model[160];
    signal(SIGPIPE, SIG_IGN);
    model_copy_make();
    lengthen_tokenizer();
    snprintf(model, sizeof model, "%s", in_folder("model"));
    cr_assert_eq(rpc_runtime_create("texts", NULL, &runtime), STATUS_OK);
    for (int i = 0; i < 10; i++)
        restart_and_ask(runtime, model);
    rpc_runtime_destroy(runtime);
}
