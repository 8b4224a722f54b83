/* self_check: a queue thread that stands still for the limit is found, one that idles is not. */

#include "base/clock.h"
#include "grpc/health/v1/health.pb-c.h"
#include "process/self_check.h"
#include "rpc/client/client.h"
#include "rpc/server/server.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>

#define LIMIT_NS NS_PER_S
#define LOOK_NS  (250 * NS_PER_MS)

static sem_t entered, may_leave;

/* A handler that does what none may: it waits. */
static void block(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)service;
    (void)request;
    sem_post(&entered);
    sem_wait(&may_leave);
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    rpc_call_reply(call, &response.base);
}

static const struct rpc_method BLOCK = {
    .path = "/test.Block/Block",
    .kind = RPC_UNARY,
    .request = &grpc__health__v1__health_check_request__descriptor,
    .response = &grpc__health__v1__health_check_response__descriptor,
    .handler = block,
};

static void on_end(void *arg, const struct rpc_error *error)
{
    cr_expect_eq(error->status, STATUS_OK, "%s", error->message);
    sem_post(arg);
}

static struct rpc_runtime *new_runtime(const char *name)
{
    struct rpc_runtime *runtime;
    struct error error = {0};
    cr_assert_eq(rpc_runtime_create(name, &error, &runtime), STATUS_OK, "%s", error.text);
    return runtime;
}

/* Looks for twice the limit in the check's own time, which no other clock follows; in between the
 * threads get as long as they want. */
static bool stays_live(struct self_check *check, uint64_t *now_ns, const struct rpc_runtime *moves)
{
    bool is_live = true;
    for (uint64_t end_ns = *now_ns + 2 * LIMIT_NS; *now_ns < end_ns; *now_ns += LOOK_NS) {
        uint64_t before = moves ? rpc_runtime_progress(moves) : 0;
        while (moves && rpc_runtime_progress(moves) == before)
            (void)poll(NULL, 0, 1);
        is_live = self_check_is_live(check, *now_ns);
    }
    return is_live;
}

Test(self_check, finds_a_thread_that_stands_still, .timeout = 60)
{
    struct rpc_runtime *server_runtime = new_runtime("server"), *runtime = new_runtime("client");
    struct rpc_server *server;
    struct rpc_client *client;
    struct rpc_channel *channel;
    struct self_check *check;
    struct error error = {0};
    const struct rpc_service service = {.name = "test.Block", .methods = &BLOCK, .n_methods = 1};
    uint64_t now_ns = NS_PER_S;
    char address[32];
    sem_t ended;
    sem_init(&entered, 0, 0);
    sem_init(&may_leave, 0, 0);
    sem_init(&ended, 0, 0);
    cr_assert_eq(
        rpc_server_create(server_runtime, "127.0.0.1:0", &service, 1, NULL, &error, &server),
        STATUS_OK, "%s", error.text);
    cr_assert_eq(rpc_client_create(runtime, NULL, &client), STATUS_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(server));
    cr_assert_eq(rpc_channel_open(client, address, &channel), STATUS_OK);
    cr_assert_eq(self_check_create(LIMIT_NS, &check), STATUS_OK);
    self_check_add_runtime(check, server_runtime);
    cr_expect(stays_live(check, &now_ns, server_runtime), "it idles");

    Grpc__Health__V1__HealthCheckRequest message = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_request request = {
        .path = BLOCK.path,
        .message = &message.base,
        .response = BLOCK.response,
        .deadline_ns = DEADLINE_NONE,
        .on_end = on_end,
        .arg = &ended,
    };
    cr_assert_eq(rpc_channel_start(channel, &request, NULL), STATUS_OK);
    sem_wait(&entered);
    cr_expect_not(stays_live(check, &now_ns, NULL), "it waits in a handler");
    sem_post(&may_leave);
    sem_wait(&ended);
    cr_expect(stays_live(check, &now_ns, server_runtime), "it is back");

    self_check_destroy(check);
    rpc_channel_close(channel);
    rpc_client_destroy(client);
    rpc_server_destroy(server);
    rpc_runtime_destroy(runtime);
    rpc_runtime_destroy(server_runtime);
}
