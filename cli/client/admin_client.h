/*
 * admin_client - how a command calls processes' AdminService: under which cluster keys, over which TLS.
 *
 * Without a key's file those that this user's processes have left on this host are tried, one after the other:
 * nothing but a MAC under the others leaves this process.
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

/* Of the process that was named, and of others by their control ports. */
struct admin_clients {
    struct rpc_client *server;
    struct rpc_client *peers;
};

typedef enum status (*admin_task)(void *arg, const struct admin_clients *clients,
                                  struct rpc_error *error);

/* Runs the task with one key after the other, until it ends in another way than with UNAUTHENTICATED; opens and
 * closes gRPC. Says on standard error why it failed. Returns the exit status. */
int admin_client_main(const char *command, const struct admin_client_options *options,
                      char address_out[ADDRESS_TEXT_MAX], admin_task task, void *arg);

/* GetState: also makes the life of who answers known to the client. */
MUST_CHECK enum status admin_client_ask(struct rpc_client *client, const char *address,
                                        uint64_t limit_ms, struct process_state *state_out,
                                        struct rpc_error *error);
MUST_CHECK enum status admin_client_drain(struct rpc_client *client, const char *address,
                                          uint64_t limit_ms, struct rpc_error *error);
