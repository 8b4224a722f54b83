/*
 * call - one call that a server is answering.
 *
 * A unary call ends by rpc_call_reply or a failure. A stream takes any number of rpc_call_send and
 * ends by rpc_call_finish or a failure; earlier messages are delivered first. Ending a call a
 * second time has no effect, so a worker need not know whether the peer has left meanwhile.
 *
 * Counted: a handler borrows the call; code that keeps it longer calls rpc_call_share and later
 * rpc_call_release. If the last holder releases an unfinished call, it fails with BUG.
 *
 * Bound: unsent messages of a call are at most call_buffer_bytes_max (server.h); if the peer reads
 * slower than that, or than slow_reader_ns, the call ends with SLOW_READER.
 *
 * Thread: any, for every function. Messages are sent in the order of the rpc_call_send calls.
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

/* For streams. message is packed before the function returns. QUEUE_FULL: the peer reads too
 * slowly, and the call has just ended with SLOW_READER. CANCELLED: the call was over already. */
MUST_CHECK enum status rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message);
/* Ends a stream with OK after all sent messages. */
void rpc_call_finish(struct rpc_call *call);

/* For unary calls: sends the one message and ends the call with OK. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message);

/* Ends a call of either kind with an error, after all sent messages. error->status must not be OK. */
void rpc_call_fail(struct rpc_call *call, const struct rpc_error *error);
/* The same, with only a status and a sentence. */
void rpc_call_fail_status(struct rpc_call *call, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* why: OK or the failure with which this side ended it; CANCELLED: the peer left or the connection
 * broke; TIMED_OUT: its deadline passed; SLOW_READER. */
typedef void (*rpc_call_end)(void *arg, enum status why);

/* Sets the function that runs exactly once, when the call is over for the peer, whether or not
 * anything was sent. It runs on the queue thread, or before this function returns if the call is
 * over already; no lock is held. */
void rpc_call_on_end(struct rpc_call *call, rpc_call_end on_end, void *arg);

/* Sets the function that runs whenever all that was sent has left and the call goes on: a stream that is longer than
 * call_buffer_bytes_max sends its next piece there. Set it before the first message; of a call that has been ended it is ignored. It runs on the queue thread, with no
 * lock held, never after on_end. */
void rpc_call_on_quiet(struct rpc_call *call, void (*on_quiet)(void *arg), void *arg);

/* The call's messages are a reply that was kept until its end, of so many bytes: so much more may wait to be sent. */
void rpc_call_keeps(struct rpc_call *call, size_t bytes_max);

/* True as soon as nothing can reach the peer any more. */
bool rpc_call_is_over(struct rpc_call *call);
/* How a call that is over ended, with the values of on_end. */
enum status rpc_call_end_status(struct rpc_call *call);

/* CLOCK_MONOTONIC; the server's default if the client gave none; DEADLINE_NONE for methods with idles. */
uint64_t rpc_call_deadline_ns(const struct rpc_call *call);

/* The id of the request (request_id.h), from the client's metadata or drawn. Valid until the call is released. */
const char *rpc_call_request_id(const struct rpc_call *call);
/* Changes the id. Only the handler may do so, or code that continues for it, before anything is sent; 1 ..
 * 128 characters. */
void rpc_call_set_request_id(struct rpc_call *call, const char *id);

/* The id, and the trace from the client's metadata (trace_context.h): none if there is no traceparent,
 * several, or a refused one. Also for calls between processes: the cluster key covers neither, so only logs
 * and traces may use them. */
void rpc_call_origin(const struct rpc_call *call, struct request_origin *origin_out);

/* How often the client's metadata has that key. value_out, bytes_out: the first value, not set if there
 * is none. Only inside enter of a doorkeeper (server_options.h). */
size_t rpc_call_header(const struct rpc_call *call, const char *key, const char **value_out,
                       size_t *bytes_out);
/* The pass from the doorkeeper; NULL: none. Valid until the call is released. */
void *rpc_call_pass(const struct rpc_call *call);

/* The client of the call. */
void rpc_call_peer_of(const struct rpc_call *call, struct rpc_peer *peer_out);

/* Only the client's address, cut to size. */
void rpc_call_peer(const struct rpc_call *call, char *peer_out, size_t peer_bytes);
