#include "cli/client/admin_client.h"

#include "base/clock.h"
#include "cli/client/call_guard.h"
#include "cli/client/listener.h"
#include "cli/client/screen.h"
#include "cli/command.h"
#include "process/run_folder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one call ---- */

struct answer {
    enum status status;
    struct error error;
    struct process_state *state;
};

static void on_state(void *arg, const ProtobufCMessage *message)
{
    struct answer *answer = arg;
    answer->status = process_state_decode((const Kvferry__Internal__V1__GetStateResponse *)message,
                                          answer->state, &answer->error);
}

enum status admin_client_ask(struct rpc_client *client, const char *address, uint64_t limit_ms,
                             struct process_state *state_out, struct rpc_error *error)
{
    assert(limit_ms > 0);
    struct rpc_channel *channel;
    call_guard_limit(limit_ms);
    TRY(rpc_channel_open(client, address, &channel));
    struct answer answer = {.state = state_out};
    struct rpc_request request = process_state_request(clock_now_ns() + limit_ms * NS_PER_MS);
    request.on_message = on_state;
    request.arg = &answer;
    enum status status = rpc_channel_call_wait(channel, &request, error);
    rpc_channel_close(channel);
    if (status == STATUS_OK && answer.status != STATUS_OK) {
        status = answer.status;
        rpc_error_set(error, status, NULL, NULL, "%s", answer.error.text);
    }
    return status;
}

enum status admin_client_call(struct rpc_client *client, const char *address, uint64_t limit_ms,
                              const struct rpc_request *request, struct rpc_error *error)
{
    assert(limit_ms > 0);
    struct rpc_channel *channel;
    struct rpc_request timed = *request;
    timed.deadline_ns = clock_now_ns() + limit_ms * NS_PER_MS;
    call_guard_limit(limit_ms);
    TRY(rpc_channel_open(client, address, &channel));
    enum status status = rpc_channel_call_wait(channel, &timed, error);
    if (status == STATUS_STALE_PEER) /* its incarnation is known now */
        status = rpc_channel_call_wait(channel, &timed, error);
    rpc_channel_close(channel);
    return status;
}

enum status admin_client_drain(struct rpc_client *client, const char *address, uint64_t limit_ms,
                               struct rpc_error *error)
{
    Kvferry__Internal__V1__DrainRequest message = KVFERRY__INTERNAL__V1__DRAIN_REQUEST__INIT;
    const struct rpc_request request = {
        .path = "/kvferry.internal.v1.AdminService/Drain",
        .message = &message.base,
        .response = &kvferry__internal__v1__drain_response__descriptor,
    };
    return admin_client_call(client, address, limit_ms, &request, error);
}

/* ---- TLS ---- */

struct admin_tls {
    struct rpc_client_tls by_host, by_role;
    const struct rpc_client_tls *server, *peers; /* NULL: clear text */
};

static enum status read_tls(const struct admin_client_options *options, struct admin_tls *tls_out,
                            struct error *error)
{
    bool has_tls, has_mtls;
    TRY(server_tls_read(&options->tls, &tls_out->by_host, &has_tls, error));
    TRY(process_tls_client(&options->peers, &tls_out->by_role, &has_mtls, error));
    tls_out->peers = has_mtls ? &tls_out->by_role : NULL;
    tls_out->server = has_tls ? &tls_out->by_host : tls_out->peers;
    return STATUS_OK;
}

/* ---- keys ---- */

static enum status run_with(struct rpc_runtime *runtime, const struct key_set *keys,
                            const struct admin_tls *tls, admin_task task, void *arg,
                            struct rpc_error *error)
{
    struct rpc_client_options options;
    struct admin_clients clients = {0};
    struct cluster_key *key;
    assert(task && keys);
    rpc_client_options_init(&options);
    TRY(cluster_key_create(keys, &key));
    options.key = key;
    options.tls = tls->server;
    enum status status = rpc_client_create(runtime, &options, &clients.server);
    options.tls = tls->peers;
    if (status == STATUS_OK)
        status = rpc_client_create(runtime, &options, &clients.peers);
    if (status == STATUS_OK)
        status = task(arg, &clients, error);
    rpc_client_destroy(clients.peers);
    rpc_client_destroy(clients.server);
    cluster_key_destroy(key);
    return status;
}

/* 0: a Unix socket has no port. */
static uint16_t port_of(const char *text)
{
    struct address address;
    struct error ignored;
    return address_parse(text, &address, &ignored) == STATUS_OK ? address.port : 0;
}

static enum status find_keys(const char *path, const char *address,
                             struct key_set keys_out[RUN_KEYS_MAX], uint32_t *n_out,
                             struct rpc_error *error)
{
    struct error why = {""};
    enum status status = STATUS_OK;
    *n_out = path[0] ? 1 : run_folder_keys(port_of(address), keys_out, RUN_KEYS_MAX);
    if (path[0])
        status = key_file_read(path, &keys_out[0], &why);
    else if (*n_out == 0)
        status = key_set_draw(&keys_out[(*n_out)++], &why); /* whether a process listens at all */
    if (status != STATUS_OK)
        rpc_error_set(error, status, NULL, NULL, "%s", why.text);
    return status;
}

/* The arguments of one call, without its keys. */
struct inquiry {
    const char *command, *address;
    const struct admin_client_options *options;
    const struct admin_tls *tls;
    admin_task task;
    void *arg;
};

static enum status run_with_keys(struct rpc_runtime *runtime, const struct inquiry *inquiry,
                                 struct rpc_error *error)
{
    struct key_set keys[RUN_KEYS_MAX];
    uint32_t n;
    TRY(find_keys(inquiry->options->cluster_key, inquiry->address, keys, &n, error));
    assert(n > 0 && n <= RUN_KEYS_MAX);
    enum status status = STATUS_UNAUTHENTICATED;
    for (uint32_t i = 0; i < n && status == STATUS_UNAUTHENTICATED; i++)
        status = run_with(runtime, &keys[i], inquiry->tls, inquiry->task, inquiry->arg, error);
    for (uint32_t i = 0; i < n; i++)
        key_set_wipe(&keys[i]);
    return status;
}

/* ---- a command ---- */

static void say_why_not(const char *command, const char *address, enum status status,
                        const struct rpc_error *found)
{
    struct error error = {""};
    assert(status != STATUS_OK);
    if (status == STATUS_PEER_LOST)
        listener_explain(address, found->message, &error);
    else if (status == STATUS_UNAUTHENTICATED)
        error_write(&error,
                    "%s: %.200s (--cluster-key gives the key; without it, the keys of this user's "
                    "processes on this host are tried)",
                    address, found->message);
    else
        error_write(&error, "%s: %s", address,
                    found->message[0] ? found->message : status_text(status));
    fprintf(stderr, "%s: %s\n", command, error.text);
}

/* Before a limit ends the process. */
static void end(void *arg, int signal_number)
{
    (void)arg;
    (void)signal_number;
    screen_close();
}

static enum status run(const struct inquiry *inquiry, struct rpc_error *error)
{
    struct rpc_runtime *runtime = NULL;
    struct error start = {""};
    const struct call_guard_options guard = {.command = inquiry->command, .end = end};
    enum status status = call_guard_begin(&guard, &start);
    call_guard_limit(0);
    if (status == STATUS_OK)
        status = rpc_runtime_create("rpc-client", &start, &runtime);
    if (status == STATUS_OK)
        status = run_with_keys(runtime, inquiry, error);
    else if (start.text[0])
        rpc_error_set(error, status, NULL, NULL, "%s", start.text);
    call_guard_limit(0);
    rpc_runtime_destroy(runtime);
    (void)call_guard_end();
    return status;
}

int admin_client_main(const char *command, const struct admin_client_options *options,
                      char address_out[ADDRESS_TEXT_MAX], admin_task task, void *arg)
{
    struct rpc_error error = {0};
    struct error misused = {""};
    struct admin_tls tls;
    enum status status = listener_address(options->server, address_out, &misused);
    if (status == STATUS_OK)
        status = read_tls(options, &tls, &misused);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", command, misused.text[0] ? misused.text : status_text(status));
        return CONFIG_EXIT_MISUSED;
    }
    const struct inquiry inquiry = {command, address_out, options, &tls, task, arg};
    status = run(&inquiry, &error);
    if (status != STATUS_OK)
        say_why_not(command, address_out, status, &error);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
