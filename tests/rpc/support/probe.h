/*
 * probe - a server with the methods of probe.proto, and a client to it, each on its own runtime.
 *
 * Echo answers; Fail fails with what probe_fail_with holds; Forget returns without an answer; Hold
 * and HoldStream keep the call until the test says so; Count sends from a thread of its own; Flood
 * sends from the handler until it is refused; Pull sends a message when the one before has left.
 */
#pragma once

#include "probe.pb-c.h"
#include "rpc/auth/call_auth.h"
#include "rpc/client/client.h"
#include "rpc/server/health.h"
#include "rpc/server/server.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdbool.h>

#define PROBE_WAIT_S 20 /* bound of every wait: reached only by a failure */

#define PROBE_CALLS_MAX 256

struct outcome;

/* What a handler was told about its call. */
struct seen_call {
    uint64_t deadline_ns;
    char request_id[64];
    struct request_origin origin;
    char peer[64];
    char identity[256];
};

struct probe {
    struct rpc_runtime *server_runtime;
    struct rpc_runtime *client_runtime;
    struct rpc_health *health;
    struct rpc_server *server;
    struct rpc_client *client;
    struct rpc_channel *channel;
    char address[64];
    struct call_auth *auth; /* NULL: the service is for everybody */

    pthread_mutex_t lock; /* what follows; changed is signalled at every change */
    struct rpc_error fail_with;
    pthread_cond_t changed;
    struct rpc_call *held[PROBE_CALLS_MAX]; /* by Hold and HoldStream, one holder each */
    uint32_t n_held;
    bool is_stopping; /* nothing is held any more */
    uint32_t n_ends;  /* of held, counted and flooded calls */
    enum status last_end;
    enum status flood_end; /* what the refused send returned */
    struct seen_call last;
};

extern const struct rpc_method PROBE_METHODS[];
extern const size_t PROBE_N_METHODS;

struct rpc_service probe_service(struct probe *probe);

/* Server (options NULL: defaults, with health and reflection) and client; asserts that it works. */
void probe_start(struct probe *probe, const struct rpc_server_options *options);
/* An inner service of that auth, and a client with that key, which may be NULL. Both borrowed. */
void probe_start_inner(struct probe *probe, struct call_auth *auth, struct cluster_key *key);
/* The same over TLS, the server's options as given but for auth. */
void probe_start_secure(struct probe *probe, const struct rpc_server_options *server,
                        const struct rpc_client_options *client);
void probe_start_client(struct probe *probe, const char *address);
void probe_stop(struct probe *probe);
/* The same with the call of outcome still open; it ends by that, and outcome is finished. */
void probe_stop_open(struct probe *probe, struct outcome *outcome);

/* Waits until the counter has reached n. */
void probe_wait_held(struct probe *probe, uint32_t n);
void probe_wait_ends(struct probe *probe, uint32_t n);
/* Keeps some messages of size unsent in the first held call until it is over: how much the
 * client's transport takes in for a reader that does not read is gRPC's choice, and grows. */
void probe_push_until_end(struct probe *probe, uint32_t first_index, uint32_t size);
struct seen_call probe_last_call(struct probe *probe);
/* Drops the test's holders of all held calls. */
void probe_release_held(struct probe *probe);

/* What a client call brought. */
struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t n_messages;
    uint64_t n_bytes;
    bool is_in_order; /* index of message i was i */
    bool is_stuck;    /* the callback waits while true */
    uint32_t n_ends;
    struct rpc_error error;
    char last_text[64];
    uint32_t last_n_tokens;
};

void outcome_init(struct outcome *outcome);
void outcome_wait_messages(struct outcome *outcome, uint64_t n);
void outcome_wait_end(struct outcome *outcome);
void outcome_unstick(struct outcome *outcome);
void outcome_finish(struct outcome *outcome);

/* A request for path, with the outcome as callbacks' argument. */
struct rpc_request probe_request(const char *method, const ProtobufCMessage *ask,
                                 struct outcome *outcome);
/* Blocking unary Echo of text; the status it ended with. */
enum status probe_echo(struct probe *probe, const char *text, struct rpc_error *error_out);
uint64_t probe_in_ms(uint64_t ms); /* a deadline */
