/* ps - asks a router, and each worker it knows, for its state, and prints a line for each. */
#include "base/clock.h"
#include "cli/command.h"
#include "process/process_state.h"
#include "rpc/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_CONFIG(X)                                                                               \
    X(control, STRING, "127.0.0.1:50052", "", "control port of the router, or of a worker")        \
    X(deadline_ms, DURATION_MS(1, 600000), "2s", "ms", "longest wait for one process")

CONFIG_DECLARE(ps_config, PS_CONFIG);
CONFIG_DEFINE(ps_config, PS_CONFIG, CONFIG_NO_ALIASES)

struct answer {
    enum status status;
    struct error error;
    struct process_state *state;
};

static void on_state(void *arg, const ProtobufCMessage *message)
{
    struct answer *answer = arg;
    answer->status = process_state_decode((const Kvferry__V1__GetStateResponse *)message,
                                          answer->state, &answer->error);
}

static enum status ask(struct rpc_client *client, const char *address, uint64_t limit_ms,
                       struct process_state *state_out, struct rpc_error *error)
{
    struct rpc_channel *channel;
    TRY(rpc_channel_open(client, address, &channel));
    struct answer answer = {.state = state_out};
    Kvferry__V1__GetStateRequest message = KVFERRY__V1__GET_STATE_REQUEST__INIT;
    struct rpc_request request = {
        .path = "/kvferry.v1.AdminService/GetState",
        .message = &message.base,
        .response = &kvferry__v1__get_state_response__descriptor,
        .deadline_ns = clock_now_ns() + limit_ms * NS_PER_MS,
        .on_message = on_state,
        .arg = &answer,
    };
    enum status status = rpc_channel_call_wait(channel, &request, error);
    rpc_channel_close(channel);
    if (status == STATUS_OK && answer.status != STATUS_OK) {
        status = answer.status;
        rpc_error_set(error, status, NULL, NULL, "%s", answer.error.text);
    }
    return status;
}

static const char *word(const struct process_state *state)
{
    if (state->is_draining)
        return "draining";
    return state->is_ready ? "ready" : "not ready";
}

static void print_line(const char *address, const struct process_state *state)
{
    const struct process_blocks *blocks = &state->blocks;
    char pool[64] = "-";
    if (blocks->all > 0)
        snprintf(pool, sizeof pool, "%u/%u/%u/%u", blocks->all, blocks->free, blocks->cached,
                 blocks->all - blocks->free - blocks->cached);
    printf("%-10s %-22s %-9s %8u %8.1f %7u %7u  %-20s %10.1f %10.1f %8.1f\n",
           role_name(state->role), address, word(state), state->process_id,
           (double)state->uptime_ms / 1000, state->requests_running, state->requests_waiting, pool,
           (double)state->kv_bytes_received / (1 << 20), (double)state->kv_bytes_sent / (1 << 20),
           (double)state->resident_bytes / (1 << 20));
}

static enum status print_all(struct rpc_client *client, const struct ps_config *values,
                             struct rpc_error *error)
{
    struct process_state first = {0};
    TRY(ask(client, values->control, values->deadline_ms, &first, error));
    printf("%-10s %-22s %-9s %8s %8s %7s %7s  %-20s %10s %10s %8s\n", "ROLE", "CONTROL", "STATE",
           "PID", "UP s", "RUNNING", "WAITING", "BLOCKS/FREE/CACHE/USE", "KV IN MiB", "KV OUT MiB",
           "RSS MiB");
    print_line(values->control, &first);
    for (uint32_t i = 0; first.role == KVFERRY__V1__ROLE__ROLE_ROUTER && i < first.n_peers; i++) {
        const struct process_peer *peer = &first.peers[i];
        struct process_state state = {0};
        struct rpc_error silent;
        if (ask(client, peer->address, values->deadline_ms, &state, &silent) == STATUS_OK)
            print_line(peer->address, &state);
        else
            printf("%-10s %-22s no answer: %s\n", role_name(peer->role), peer->address,
                   silent.message);
        if (peer->reason[0])
            printf("%-10s   the router does not use it%s: %s\n", "",
                   peer->is_ready ? " with every generation worker" : "", peer->reason);
    }
    return STATUS_OK;
}

int ps_main(const struct config_input *input)
{
    struct ps_config values;
    struct config *config;
    int exit_status;
    if (command_configure(ps_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    struct rpc_runtime *runtime = NULL;
    struct rpc_client *client = NULL;
    struct error start = {0};
    struct rpc_error error = {0};
    enum status status = rpc_runtime_create("rpc-client", &start, &runtime);
    if (status == STATUS_OK)
        status = rpc_client_create(runtime, NULL, &client);
    if (status == STATUS_OK)
        status = print_all(client, &values, &error);
    rpc_client_destroy(client);
    rpc_runtime_destroy(runtime);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s: %s\n", input->command, values.control,
                error.message[0] ? error.message
                : start.text[0]  ? start.text
                                 : status_text(status));
    config_destroy(config);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
