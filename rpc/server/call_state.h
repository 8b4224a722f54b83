/*
 * call_state - the inside of a call, for the files call*.c and the server. Includes gRPC; for rpc/ only.
 *
 * Life of a call object: armed slot -> accepted by its headers (in the server's list) -> its message has arrived ->
 * over for the peer -> freed when the last holder has released it and the last tag has come back.
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
    struct rpc_server_method *method; /* NULL: the slot is for unknown methods */
    struct rpc_tag accepted;
    struct rpc_tag read;
    struct rpc_tag closed;
    struct rpc_tag sent;

    grpc_call *call; /* NULL while armed */
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request;
    gpr_timespec deadline; /* as gRPC reports it */
    uint64_t deadline_ns;
    uint64_t accepted_ns;

    struct rpc_call *next; /* in server->calls, under its lock */
    struct rpc_call *previous;

    void *pass; /* from the doorkeeper; set before other code knows the call */

    pthread_mutex_t lock; /* guards the members below */
    bool has_left;        /* the doorkeeper was told */
    uint32_t n_holders;
    uint32_t n_tags; /* open batches */
    bool is_reading;
    bool is_live;       /* counted in n_live; used by the queue thread */
    bool is_late;       /* counted in n_late */
    bool lacks_message; /* the client ended its half without one, or left; the end shows which */
    bool is_sending;
    bool has_sent_headers;
    bool is_ending; /* it is decided how it ends */
    bool has_sent_status;
    bool is_watched;     /* a batch that reports the end is open */
    bool sent_tells_end; /* and it is that of `sent` */
    bool is_killed;
    bool is_over;
    struct rpc_message *unsent; /* oldest first */
    struct rpc_message **unsent_end;
    struct rpc_message *in_flight;
    size_t unsent_bytes;   /* with the message in flight */
    size_t kept_bytes_max; /* see rpc_call_keeps */
    uint64_t send_start_ns;
    enum status end_status;
    char request_id[RPC_REQUEST_ID_MAX + 1];
    bool is_bound; /* the caller knows the cluster key; answers prove that we do */
    struct call_bond bond;
    grpc_metadata
        headers[2]; /* id and proof; these and the members below live until their batch is back */
    size_t n_headers;
    grpc_slice sentence;
    grpc_metadata trailers[3]; /* error details; the id; the proof */
    size_t n_trailers;
    int is_cancelled;                           /* gRPC sets it before it reports the end */
    void (*on_end)(void *arg, enum status why); /* rpc_call_end */
    void *on_end_arg;
    void (*on_quiet)(void *arg); /* rpc_call_on_quiet */
    void *on_quiet_arg;
};

/* In call.c. create: an unarmed slot. destroy: only without tags and holders. */
struct rpc_call *rpc_call_create(struct rpc_server *server, struct rpc_server_method *method);
void rpc_call_destroy(struct rpc_call *call);
/* After the handler has returned, or the call was refused: begins to watch for the end, and to read
 * a bidi stream. */
void rpc_call_handled(struct rpc_call *call);
/* INVALID_ARGUMENT: more than header_bytes_max; each entry counts 32 bytes more than it has, as in HTTP/2. */
MUST_CHECK enum status rpc_call_check_headers(const struct rpc_call *call, struct rpc_error *error);
/* Sets deadline_ns, from deadline or details, and accepted_ns. */
void rpc_call_take_deadline(struct rpc_call *call);
/* Takes the request id from the client's metadata, or draws one. INVALID_ARGUMENT with a sentence. */
MUST_CHECK enum status rpc_call_take_request_id(struct rpc_call *call, struct rpc_error *error);
/* For a call of an inner service: check that the headers prove that the caller knows the cluster key, and that the
 * message is the proven one. As call_auth_check and call_auth_check_message. */
MUST_CHECK enum status rpc_call_authenticate(struct rpc_call *call, struct rpc_error *error);
MUST_CHECK enum status rpc_call_authenticate_message(struct rpc_call *call,
                                                     struct rpc_error *error);
/* For the same: checks that the role in the client's certificate may call it, if certificates are
 * used. */
MUST_CHECK enum status rpc_call_check_role(const struct rpc_call *call, struct rpc_error *error);
/* The proof for the client of a bound call: metadata whose value the caller unrefs. digest may be NULL,
 * as in call_auth.h. */
grpc_metadata rpc_call_proof(const struct rpc_call *call, enum call_answer answer,
                             const struct sha256 *digest);
/* Unlocks after a tag or a holder was released, and frees the call if it was the last. */
void rpc_call_leave(struct rpc_call *call);

/* In call_request.c. The tag of a batch that reads. */
void rpc_call_on_read(struct rpc_tag *tag, bool is_ok);
/* For an accepted call: waits for its one message and passes it to the handler. Takes the handler's hold. */
void rpc_call_await_message(struct rpc_call *call);
/* Under its lock. Reads a bidi stream only when nothing is unsent, so that a client cannot make answers
 * pile up. */
void rpc_call_read_if_quiet(struct rpc_call *call);
/* Whether its message has not arrived. */
bool rpc_call_is_awaiting(struct rpc_call *call);
/* Under its lock: its message has arrived, or is not needed any more. */
void rpc_call_leave_late(struct rpc_call *call);

/* In call.c. Ends it now, also with unsent messages. */
void rpc_call_kill(struct rpc_call *call, enum status why);
/* Ends the call if it exceeds a time limit. stopped_ns: time in which this process did nothing, which no reader answers for. */
void rpc_call_check_time(struct rpc_call *call, uint64_t now_ns, uint64_t stopped_ns);
