#include "tests/process/support/admin_bed.h"

#include "base/clock.h"
#include "rpc/borrow.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define LIMIT_NS (120 * NS_PER_S)

static void fill_nothing(void *arg, struct process_state *state_out)
{
    (void)arg;
    (void)state_out;
}

void admin_bed_open(struct admin_bed *bed)
{
    struct rpc_server_options options;
    struct error error = {""};
    char address[32];
    rpc_server_options_init(&options);
    atomic_store(&bed->process.serving, true);
    bed->service.process = &bed->process;
    bed->service.fill_state = fill_nothing;
    const struct rpc_service row = admin_service_row(&bed->service);
    cr_assert_eq(rpc_runtime_create("server", NULL, &bed->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_runtime_create("client", NULL, &bed->client_runtime), STATUS_OK);
    cr_assert_eq(rpc_server_create(bed->server_runtime, "127.0.0.1:0", &row, 1, &options, &error,
                                   &bed->server),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(rpc_client_create(bed->client_runtime, NULL, &bed->client), STATUS_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)rpc_server_port(bed->server));
    cr_assert_eq(rpc_channel_open(bed->client, address, &bed->channel), STATUS_OK);
}

void admin_bed_close(struct admin_bed *bed)
{
    rpc_channel_close(bed->channel);
    rpc_client_destroy(bed->client);
    rpc_server_destroy(bed->server);
    rpc_runtime_destroy(bed->client_runtime);
    rpc_runtime_destroy(bed->server_runtime);
}

static void on_loaded(void *arg, const ProtobufCMessage *message)
{
    const Kvferry__Internal__V1__LoadAdapterResponse
        *response = (const Kvferry__Internal__V1__LoadAdapterResponse *)message;
    struct admin_answer *answer = arg;
    cr_assert_not_null(response->adapter);
    snprintf(answer->name, sizeof answer->name, "%s", response->adapter->name);
    snprintf(answer->digest, sizeof answer->digest, "%s", response->adapter->digest);
    answer->adapter_bytes = response->adapter_bytes;
}

static void on_unloaded(void *arg, const ProtobufCMessage *message)
{
    ((struct admin_answer *)arg)->adapter_bytes =
        ((const Kvferry__Internal__V1__UnloadAdapterResponse *)message)->adapter_bytes;
}

static enum status call(struct admin_bed *bed, struct rpc_request request,
                        struct admin_answer *answer)
{
    *answer = (struct admin_answer){.name = ""};
    request.arg = answer;
    request.wait_for_ready = true;
    request.deadline_ns = clock_now_ns() + LIMIT_NS;
    return rpc_channel_call_wait(bed->channel, &request, &answer->error);
}

enum status admin_bed_load(struct admin_bed *bed, const char *name, const char *folder,
                           struct admin_answer *answer_out)
{
    Kvferry__Internal__V1__LoadAdapterRequest message =
        KVFERRY__INTERNAL__V1__LOAD_ADAPTER_REQUEST__INIT;
    message.name = borrow(name);
    message.folder = borrow(folder);
    return call(
        bed,
        (struct rpc_request){.path = "/kvferry.internal.v1.AdminService/LoadAdapter",
                             .message = &message.base,
                             .response = &kvferry__internal__v1__load_adapter_response__descriptor,
                             .on_message = on_loaded},
        answer_out);
}

enum status admin_bed_unload(struct admin_bed *bed, const char *name,
                             struct admin_answer *answer_out)
{
    Kvferry__Internal__V1__UnloadAdapterRequest message =
        KVFERRY__INTERNAL__V1__UNLOAD_ADAPTER_REQUEST__INIT;
    message.name = borrow(name);
    return call(bed,
                (struct rpc_request){
                    .path = "/kvferry.internal.v1.AdminService/UnloadAdapter",
                    .message = &message.base,
                    .response = &kvferry__internal__v1__unload_adapter_response__descriptor,
                    .on_message = on_unloaded},
                answer_out);
}
