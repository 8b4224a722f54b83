/*
 * admin_client - how a command calls the AdminService of processes: with which cluster keys, over which TLS.
 *
 * Without a key file it tries the keys that this user's processes have stored on this host, one after the
 * other. Only MACs under these keys leave this process.
 *
 * Thread: main.
 */
#pragma once

#include "cli/client/server_tls.h"
#include "process/ports/address.h"
#include "process/process_config.h"
#include "process/process_state.h"
#include "process/process_tls.h"

#define ADMIN_CLIENT_ROWS(X)                                                                       \
    X(cluster_key, STRING, "", "path",                                                             \
      "file with the cluster key of the processes; empty: this user's keys on this host are "      \
      "tried")                                                                                     \
    X(deadline_ms, DURATION_MS(1, 600000), "2s", "ms", "longest wait for one process")             \
    SERVER_TLS_ROWS(X)                                                                             \
    PROCESS_PEER_ROWS(X, "certificate of a role of the cluster (PEM): turns on mTLS to control "   \
                         "ports, and to the server without --tls")

struct admin_client_options {
    const char *server, *cluster_key;
    struct server_tls_options tls;
    struct process_tls_options peers;
};

#define ADMIN_CLIENT_OPTIONS(config)                                                               \
    {                                                                                              \
        .server = (config)->server, .cluster_key = (config)->cluster_key,                          \
        .tls = SERVER_TLS_OPTIONS(config),                                                         \
        .peers = {.certificate = "",                                                               \
                  .key = "",                                                                       \
                  .client_ca = "",                                                                 \
                  .peer_certificate = (config)->peer_certificate,                                  \
                  .peer_key = (config)->peer_key,                                                  \
                  .peer_ca = (config)->peer_ca,                                                    \
                  .cluster_name = (config)->cluster_name},                                         \
    }

/* TLS for the named process, and for other processes by their control ports. */
struct admin_clients {
    struct rpc_client *server;
    struct rpc_client *peers;
};

typedef enum status (*admin_task)(void *arg, const struct admin_clients *clients,
                                  struct rpc_error *error);

/* Runs the task with one key after the other until the result is not UNAUTHENTICATED; opens and closes gRPC.
 * Prints the reason of a failure on standard error. Returns the exit status. */
int admin_client_main(const char *command, const struct admin_client_options *options,
                      char address_out[ADDRESS_TEXT_MAX], admin_task task, void *arg);

/* Calls GetState; after it the client also knows the incarnation of the process. */
MUST_CHECK enum status admin_client_ask(struct rpc_client *client, const char *address,
                                        uint64_t limit_ms, struct process_state *state_out,
                                        struct rpc_error *error);
/* The path, message and response of request; the rest is set here. */
MUST_CHECK enum status admin_client_call(struct rpc_client *client, const char *address,
                                         uint64_t limit_ms, const struct rpc_request *request,
                                         struct rpc_error *error);
MUST_CHECK enum status admin_client_drain(struct rpc_client *client, const char *address,
                                          uint64_t limit_ms, struct rpc_error *error);
