/*
 * http_exchange - one request of HTTP/1.1 and its answer.
 *
 *     reply                       status, header fields and the whole body, with Content-Length
 *     begin, send ..., end        a stream, chunked; a client of HTTP/1.0 gets it until the connection ends
 *     cut                         ends the connection without the last chunk: the client sees that it is not all
 *
 * What was sent before is delivered first. Whoever answers or ends second is ignored, so that a thread need not know
 * whether the client left meanwhile.
 *
 * Counted: a handler borrows the exchange; who keeps it longer takes http_exchange_share and later
 * http_exchange_release. One whose last holder leaves it unanswered is answered with 500, or cut.
 *
 * Bound: unsent bytes of a stream are at most unsent_bytes_max (http_limits.h), beside what the connection has taken to
 * send; a reader slower than that, or than slow_reader_ns, loses the exchange with SLOW_READER.
 *
 * A client that closes its half of the connection while it waits for an answer, or for more of one, has left.
 *
 * Thread: any, for every function. Bytes of one exchange are sent in the order of the calls.
 */
#pragma once

#include "api/http/http_answer_head.h"
#include "api/http/http_head.h"
#include "base/status.h"
#include "rpc/peer.h"

#include <stdbool.h>
#include <stddef.h>

struct http_exchange;

struct http_exchange *http_exchange_share(struct http_exchange *exchange); /* returns exchange */
void http_exchange_release(struct http_exchange *exchange);                /* NULL is fine */

/* ---- the request; texts are good until the exchange is released ---- */

enum http_verb http_exchange_verb(const struct http_exchange *exchange);
/* Decoded: "/v1/models/a b". */
const char *http_exchange_path(const struct http_exchange *exchange);
/* The path behind that of the route (http_port.h). */
const char *http_exchange_path_rest(const struct http_exchange *exchange);
/* As http_head_query, http_head_field. */
size_t http_exchange_query(const struct http_exchange *exchange, const char *key, char *value_out,
                           size_t n_max);
const char *http_exchange_field(const struct http_exchange *exchange, const char *name);
/* How often the request has that field. */
uint32_t http_exchange_count_fields(const struct http_exchange *exchange, const char *name);
/* Whole, and a NUL behind it; "" without one. Until it is dropped. */
const char *http_exchange_body(const struct http_exchange *exchange, size_t *bytes_out);
/* Gives the body's memory back, by the one who reads it. */
void http_exchange_drop_body(struct http_exchange *exchange);
void http_exchange_peer_of(const struct http_exchange *exchange, struct rpc_peer *peer_out);
/* What the doorkeeper gave it; NULL: nothing. */
void *http_exchange_pass(const struct http_exchange *exchange);

/* Asked when the head has come, before its route is looked up and its body read. On the port's thread. */
struct http_doorkeeper {
    void *arg;
    /* False: it has answered the exchange, and the body is not read. pass_out: what belongs to the exchange, or NULL. */
    bool (*enter)(void *arg, struct http_exchange *exchange, void **pass_out);
    /* Once a pass that is not NULL, when its exchange is over. May be NULL. */
    void (*leave)(void *arg, void *pass);
    /* Nobody holds the exchange any more; any thread. May be NULL. */
    void (*destroy)(void *arg, void *pass);
};

/* ---- the answer ---- */

#define HTTP_EXCHANGE_FIELDS_MAX 8

/* A field of the answer, whoever gives it, the port's own refusals too: x-request-id, for one. name: a literal; value is
 * copied. Mostly for doorkeepers. At most HTTP_EXCHANGE_FIELDS_MAX (asserted). NO_MEMORY. CANCELLED: as for reply. */
MUST_CHECK enum status http_exchange_add_field(struct http_exchange *exchange, const char *name,
                                               const char *value);

/* The body is copied; not sent to HEAD. REPLY_TOO_LONG: more than reply_bytes_max; QUEUE_FULL: more
 * than its share, and clients have left too much unread: nothing was answered. NO_MEMORY: the
 * exchange was cut. CANCELLED: it was over or answered already. */
MUST_CHECK enum status http_exchange_reply(struct http_exchange *exchange,
                                           const struct http_answer_head *head, const void *body,
                                           size_t bytes);
/* An answer of the server's own kind: the port's form of errors. retry_after_s 0: does not say. */
void http_exchange_refuse(struct http_exchange *exchange, unsigned code, unsigned retry_after_s,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* CANCELLED: as for reply. */
MUST_CHECK enum status http_exchange_begin(struct http_exchange *exchange,
                                           const struct http_answer_head *head);
/* bytes are copied; 0 of them send nothing. QUEUE_FULL: the reader is too slow, and the exchange has just been ended with
 * SLOW_READER. NO_MEMORY: it was cut. CANCELLED: it was over or ended, or has not begun. */
MUST_CHECK enum status http_exchange_send(struct http_exchange *exchange, const void *bytes,
                                          size_t n);
/* The stream is a reply that was kept until its end, of so many bytes: so much more may wait to be sent. */
void http_exchange_keeps(struct http_exchange *exchange, uint64_t bytes_max);
void http_exchange_end(struct http_exchange *exchange);
void http_exchange_cut(struct http_exchange *exchange);

/* why: OK all was delivered to the network; CANCELLED the client left, its link broke, the port closed or the exchange was cut;
 * SLOW_READER. */
typedef void (*http_exchange_ended)(void *arg, enum status why);

/* Sets the one function that is called exactly once, when the exchange is over for the client. Runs on the port's thread,
 * or before return when it is over already; no lock is held, and it must not block. */
void http_exchange_on_end(struct http_exchange *exchange, http_exchange_ended on_end, void *arg);

/* Sets the one function that is called each time that nothing of the answer, which may not have begun, was sent for
 * quiet_ns (http_limits.h). Runs on the port's thread; no lock is held, and it must not block. Not called once on_end
 * has been. */
void http_exchange_on_quiet(struct http_exchange *exchange, void (*on_quiet)(void *arg), void *arg);

/* True from the moment that nothing can reach the client any more. */
bool http_exchange_is_over(struct http_exchange *exchange);
/* How such an exchange ended, as on_end says it. */
enum status http_exchange_end_status(struct http_exchange *exchange);
