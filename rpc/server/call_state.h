/*
 * call_state - the inside of call, for its own files and for server. Includes gRPC; for rpc/ only.
 *
 * Life of a call object: armed slot -> accepted by its headers (in the server's list) -> its message has come -> over
 * for the peer -> freed, when the last holder has released it and the last tag has come.
 *
 * Locks: server_state.h.
 */
#pragma once

#include "rpc/auth/call_auth.h"
#include "rpc/rpc_error.h"
#include "rpc/runtime/runtime_queue.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_server;
struct rpc_server_method;

struct rpc_message {
    struct rpc_message *next;
    grpc_byte_buffer *buffer;
    size_t cost_bytes;
};

struct rpc_call {
    struct rpc_server *server;
    struct rpc_server_method *method; /* NULL: of the slot for unknown methods */
    struct rpc_tag accepted;
    struct rpc_tag read;
    struct rpc_tag closed;
    struct rpc_tag sent;

    grpc_call *call; /* NULL while armed */
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request;
    gpr_timespec deadline; /* as gRPC gives it */
    uint64_t deadline_ns;
    uint64_t accepted_ns;

    struct rpc_call *next; /* in server->calls, under its lock */
    struct rpc_call *previous;

    void *pass; /* the doorkeeper's; set before anybody else knows the call */

    pthread_mutex_t lock; /* what follows */
    bool has_left;        /* the doorkeeper knows */
    uint32_t n_holders;
    uint32_t n_tags; /* batches under way */
    bool is_reading;
    bool is_live;       /* in n_live; of the queue thread */
    bool is_late;       /* in n_late */
    bool lacks_message; /* its client ended its half without one, or left: the end tells which */
    bool is_sending;
    bool has_sent_headers;
    bool is_ending; /* somebody decided how it ends */
    bool has_sent_status;
    bool is_watched;     /* a batch that tells the end is under way */
    bool sent_tells_end; /* and it is the one of `sent` */
    bool is_killed;
    bool is_over;
    struct rpc_message *unsent; /* oldest first */
    struct rpc_message **unsent_end;
    struct rpc_message *in_flight;
    size_t unsent_bytes; /* with the one in flight */
    uint64_t send_start_ns;
    enum status end_status;
    char request_id[RPC_REQUEST_ID_MAX + 1];
    bool is_bound; /* the caller knows the cluster key, and is shown that we do */
    struct call_bond bond;
    grpc_metadata
        headers[2]; /* that id, the proof; they and what follows live until their batch is back */
    size_t n_headers;
    grpc_slice sentence;
    grpc_metadata trailers[3]; /* details of an error; the id; the proof */
    size_t n_trailers;
    int is_cancelled;                           /* gRPC writes it before the end is told */
    void (*on_end)(void *arg, enum status why); /* rpc_call_end */
    void *on_end_arg;
};

/* From call.c. create: an unarmed slot. destroy: one that no tag and no holder refers to. */
struct rpc_call *rpc_call_create(struct rpc_server *server, struct rpc_server_method *method);
void rpc_call_destroy(struct rpc_call *call);
/* The handler has returned, or refused: begins to watch for the end, and to read a bidi stream. */
void rpc_call_handled(struct rpc_call *call);
/* INVALID_ARGUMENT: more than header_bytes_max, of which each entry takes 32 beside its own, as HTTP/2 counts. */
MUST_CHECK enum status rpc_call_check_headers(const struct rpc_call *call, struct rpc_error *error);
/* deadline_ns, of deadline or details, and accepted_ns. */
void rpc_call_take_deadline(struct rpc_call *call);
/* Names it by the client's metadata, or draws a name. INVALID_ARGUMENT with a sentence. */
MUST_CHECK enum status rpc_call_take_request_id(struct rpc_call *call, struct rpc_error *error);
/* Of a call of an inner service: whether its caller has proved, by its headers, that it knows the cluster key, and
 * whether its message is the one that was proven. As call_auth_check and call_auth_check_message. */
MUST_CHECK enum status rpc_call_authenticate(struct rpc_call *call, struct rpc_error *error);
MUST_CHECK enum status rpc_call_authenticate_message(struct rpc_call *call,
                                                     struct rpc_error *error);
/* Of the same: whether its certificate's role may call it, where certificates tell. */
MUST_CHECK enum status rpc_call_check_role(const struct rpc_call *call, struct rpc_error *error);
/* The proof for the caller of a bound call: metadata whose value is the caller's to unref. digest may be
 * NULL, as in call_auth.h. */
grpc_metadata rpc_call_proof(const struct rpc_call *call, enum call_answer answer,
                             const struct sha256 *digest);
/* Unlocks, after a tag or a holder was given back, and frees the call when that was the last. */
void rpc_call_leave(struct rpc_call *call);

/* From call_request.c. The tag of a batch that reads. */
void rpc_call_on_read(struct rpc_tag *tag, bool is_ok);
/* Of a call that was accepted: waits for its one message, whatever it is, and hands it over. Takes the handler's hold. */
void rpc_call_await_message(struct rpc_call *call);
/* Under its lock. A bidi stream is read when it is quiet, so that a client cannot make answers pile up. */
void rpc_call_read_if_quiet(struct rpc_call *call);
/* Whether its message has not come. */
bool rpc_call_is_awaiting(struct rpc_call *call);
/* Under its lock: its message has come, or need not any more. */
void rpc_call_leave_late(struct rpc_call *call);

/* From call.c. Ends it now, whatever is unsent. */
void rpc_call_kill(struct rpc_call *call, enum status why);
/* Kills it for its limits in time. */
void rpc_call_check_time(struct rpc_call *call, uint64_t now_ns);
