/*
 * call - one call that a server is answering.
 *
 * A unary call ends by rpc_call_reply or a failure. A stream takes any number of rpc_call_send and
 * ends by rpc_call_finish or a failure; what was sent before is delivered first. Whoever ends a
 * call second is ignored, so a worker need not know whether the peer left meanwhile.
 *
 * Counted: a handler borrows the call; who keeps it longer takes rpc_call_share and later
 * rpc_call_release. A call whose last holder leaves it unfinished fails with BUG.
 *
 * Bound: unsent messages of a call are at most call_buffer_bytes_max (server.h); a reader slower
 * than that, or than slow_reader_ns, loses the call with SLOW_READER.
 *
 * Thread: any, for every function. Messages of one call are sent in the order of the calls.
 */
#pragma once

#include "base/clock.h"
#include "base/log/request_origin.h"
#include "base/status.h"
#include "rpc/peer.h"
#include "rpc/rpc_error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call;

struct rpc_call *rpc_call_share(struct rpc_call *call); /* returns call */
void rpc_call_release(struct rpc_call *call);           /* NULL is fine */

/* Streams. message is packed before return. QUEUE_FULL: the reader is too slow and the call has
 * just been ended with SLOW_READER. CANCELLED: the call was over already. */
MUST_CHECK enum status rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message);
/* Ends a stream with OK after everything sent. */
void rpc_call_finish(struct rpc_call *call);

/* Unary calls: sends the one message and ends the call with OK. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message);

/* Ends either kind with an error, after everything sent. error->status must not be OK. */
void rpc_call_fail(struct rpc_call *call, const struct rpc_error *error);
/* The same, of a status and a sentence alone. */
void rpc_call_fail_status(struct rpc_call *call, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* why: OK or the failure that ended it from here; CANCELLED the peer left or its link broke;
 * TIMED_OUT its deadline passed; SLOW_READER. */
typedef void (*rpc_call_end)(void *arg, enum status why);

/* Sets the one function that is called exactly once, when the call is over for the peer, whether or
 * not anything was sent. Runs on the queue thread, or before return when the call is over already;
 * no lock is held. */
void rpc_call_on_end(struct rpc_call *call, rpc_call_end on_end, void *arg);

/* True from the moment that nothing can reach the peer any more. */
bool rpc_call_is_over(struct rpc_call *call);
/* How such a call ended, as on_end says it. */
enum status rpc_call_end_status(struct rpc_call *call);

/* CLOCK_MONOTONIC; the server's default when the client gave none; DEADLINE_NONE for methods
 * that idle. */
uint64_t rpc_call_deadline_ns(const struct rpc_call *call);

/* The name of the request (request_id.h): what the client's metadata says, else drawn. Good until the
 * call is released. */
const char *rpc_call_request_id(const struct rpc_call *call);
/* Renames it. By the handler only, or who goes on for it, before anything is sent; 1 .. 128 characters. */
void rpc_call_set_request_id(struct rpc_call *call, const char *id);

/* That name, and the trace that the client's metadata puts the request in (trace_context.h): none when there
 * is no traceparent, more than one, or one that is refused. Of inner calls as of others: the cluster key
 * covers neither, and nothing but logs and traces may go by them. */
void rpc_call_origin(const struct rpc_call *call, struct request_origin *origin_out);

/* How often the client's metadata has that key; value_out, bytes_out: the first, left alone when there is
 * none. Within enter of a doorkeeper (server.h) only. */
size_t rpc_call_header(const struct rpc_call *call, const char *key, const char **value_out,
                       size_t *bytes_out);
/* What the doorkeeper gave it; NULL: nothing. Good until the call is released. */
void *rpc_call_pass(const struct rpc_call *call);

/* Who calls. */
void rpc_call_peer_of(const struct rpc_call *call, struct rpc_peer *peer_out);

/* The address alone, cut to size. */
void rpc_call_peer(const struct rpc_call *call, char *peer_out, size_t peer_bytes);
