/* drain - makes a process take no new requests and finish its present ones. The process keeps
 * running. */
#include "base/clock.h"
#include "cli/client/admin_client.h"
#include "cli/command.h"
#include "cli/interrupt.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOOK_MS 100

#define DRAIN_CONFIG(X)                                                                            \
    X(server, STRING, "127.0.0.1:50052", "",                                                       \
      "address of the control port of the process to drain")                                       \
    X(wait_ms, DURATION_MS(0, 86400000), "0", "ms",                                                \
      "longest wait for the process to finish its requests; 0: do not wait")                       \
    ADMIN_CLIENT_ROWS(X)

CONFIG_DECLARE(drain_config, DRAIN_CONFIG);
CONFIG_DEFINE(drain_config, DRAIN_CONFIG, CONFIG_NO_ALIASES)

struct drain {
    const struct drain_config *values;
    const char *address;
    struct process_state state; /* after the drain call */
};

/* Or it may still get requests. */
static bool has_requests(const struct process_state *state)
{
    return state->requests_running > 0 || state->requests_waiting > 0 ||
           state->drain_delay_left_ms > 0;
}

static enum status look(struct rpc_client *client, struct drain *drain, struct rpc_error *error)
{
    return admin_client_ask(client, drain->address, drain->values->deadline_ms, &drain->state,
                            error);
}

static enum status run(void *arg, const struct admin_clients *clients, struct rpc_error *error)
{
    struct drain *drain = arg;
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000l};
    uint64_t until_ns = clock_now_ns() + drain->values->wait_ms * NS_PER_MS;
    assert(clients->server && drain->address[0]);
    TRY(look(clients->server, drain, error));
    enum status status = admin_client_drain(clients->server, drain->address,
                                            drain->values->deadline_ms, error);
    if (status == STATUS_UNAUTHENTICATED) { /* it had this key just before */
        rpc_error_set(error, STATUS_UNIMPLEMENTED, NULL, NULL,
                      "this port does not accept Drain: give the control port of the process");
        return STATUS_UNIMPLEMENTED;
    }
    TRY(status);
    uint64_t life = drain->state.incarnation;
    TRY(look(clients->server, drain, error));
    while (has_requests(&drain->state) && clock_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        TRY(look(clients->server, drain, error));
    }
    if (drain->state.incarnation == life)
        return STATUS_OK;
    rpc_error_set(error, STATUS_STALE_PEER, NULL, NULL,
                  "the process was restarted in the meantime");
    return STATUS_STALE_PEER;
}

static void say_unfinished(const char *command, const char *address, const struct drain *drain)
{
    uint64_t delay_ms = drain->state.drain_delay_left_ms;
    fprintf(stderr, "%s: %s still ", command, address);
    if (delay_ms > 0)
        fprintf(stderr, "takes new requests for %" PRIu64 " ms (drain_delay_ms)", delay_ms);
    else
        fprintf(stderr, "has requests");
    fprintf(stderr, " after %" PRIu64 " ms\n", drain->values->wait_ms);
}

int drain_main(const struct config_input *input)
{
    struct drain_config values;
    struct config *config;
    int exit_status;
    if (command_configure(drain_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    const struct admin_client_options options = ADMIN_CLIENT_OPTIONS(&values);
    char address[ADDRESS_TEXT_MAX];
    struct drain drain = {.values = &values, .address = address};
    exit_status = admin_client_main(input->command, &options, address, run, &drain);
    if (exit_status == EXIT_SUCCESS && values.wait_ms > 0 && has_requests(&drain.state)) {
        say_unfinished(input->command, address, &drain);
        exit_status = EXIT_FAILURE;
    } else if (exit_status == EXIT_SUCCESS) {
        printf("%s drains: requests running %" PRIu32 " waiting %" PRIu32, address,
               drain.state.requests_running, drain.state.requests_waiting);
        if (drain.state.drain_delay_left_ms > 0)
            printf("; takes new ones for %" PRIu64 " ms", drain.state.drain_delay_left_ms);
        putchar('\n');
    }
    config_destroy(config);
    return exit_status;
}
