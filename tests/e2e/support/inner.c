#include "inner.h"

#include "base/clock.h"
#include "process/process_state.h"
#include "process/run_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>

void inner_open(struct inner *inner, struct rpc_runtime *runtime)
{
    char path[RUN_PATH_MAX];
    struct error error = {""};
    struct rpc_client_options options;
    cr_assert_eq(run_folder_user_key(path, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(cluster_key_open(path, &error, &inner->key), STATUS_OK, "%s", error.text);
    rpc_client_options_init(&options);
    options.key = inner->key;
    cr_assert_eq(rpc_client_create(runtime, &options, &inner->calls), STATUS_OK);
}

void inner_close(struct inner *inner)
{
    rpc_client_destroy(inner->calls);
    cluster_key_destroy(inner->key);
}

struct rpc_channel *inner_channel(struct inner *inner, uint16_t control_port)
{
    char address[32];
    struct rpc_channel *channel;
    struct rpc_error error;
    snprintf(address, sizeof address, "127.0.0.1:%u", control_port);
    cr_assert_eq(rpc_channel_open(inner->calls, address, &channel), STATUS_OK);
    struct rpc_request request = process_state_request(clock_now_ns() + 30 * NS_PER_S);
    cr_assert_eq(rpc_channel_call_wait(channel, &request, &error), STATUS_OK, "%s", error.message);
    cr_assert_neq(rpc_channel_life(channel), 0);
    return channel;
}
