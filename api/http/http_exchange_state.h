/*
 * http_exchange_state - the inside of http_exchange, for its own files and for the connection that it came on.
 *
 * Life: head has come -> (body has come) -> answered -> over for the client -> freed, when the connection and the last
 * holder have left it.
 *
 * Functions here are called by the port's thread, with no lock held.
 */
#pragma once

#include "api/http/http_exchange.h"
#include "api/http/http_outbox.h"

#include <pthread.h>

struct evbuffer;
struct http_connection;

enum http_answer_place { HTTP_UNANSWERED, HTTP_STREAMING, HTTP_ANSWERED, HTTP_CUT };

struct http_exchange {
    struct http_outbox *outbox;
    struct http_connection *connection; /* of the port's thread; NULL: has left */

    struct http_head head;
    char *head_text;
    struct rpc_peer peer;
    const char *path_rest;
    void *pass;
    bool has_pass_left;

    char *body; /* of the port's thread, then of the handler */
    size_t body_bytes;
    size_t body_room;
    uint64_t body_counted; /* in the outbox */

    pthread_mutex_t lock; /* what follows */
    uint32_t n_holders;
    bool has_connection;
    enum http_answer_place place;
    unsigned code; /* 0: not answered */
    bool closes;   /* the connection ends after it */
    bool is_chunked;
    struct http_field
        fields[HTTP_EXCHANGE_FIELDS_MAX]; /* of the answer, whoever gives it; values are its own */
    size_t n_fields;
    struct evbuffer *out;    /* what no connection has taken yet */
    uint64_t kept_bytes_max; /* see http_exchange_keeps */
    bool is_queued;
    struct http_exchange *next_queued;
    bool is_killed; /* SLOW_READER, or no memory: nothing of it is sent any more */
    enum status kill_status;
    bool is_over;
    enum status end_status;
    http_exchange_ended on_end;
    void *on_end_arg;
    void (*on_quiet)(void *arg);
    void *on_quiet_arg;
};

/* Takes head and head_text over on success; one holder, the caller, and the connection. NO_MEMORY. */
MUST_CHECK enum status http_exchange_create(struct http_outbox *outbox,
                                            struct http_connection *connection,
                                            struct http_head *head, char *head_text,
                                            const struct rpc_peer *peer,
                                            struct http_exchange **exchange_out);

/* More of its body. QUEUE_FULL: no room among all bodies. NO_MEMORY. */
MUST_CHECK enum status http_exchange_add_body(struct http_exchange *exchange, const uint8_t *bytes,
                                              size_t n);

/* As http_exchange_refuse. allow: as of http_error_answer. */
void http_exchange_refuse_with(struct http_exchange *exchange, unsigned code,
                               unsigned retry_after_s, const char *allow, const char *sentence);

struct http_output {
    enum http_answer_place place;
    bool is_all; /* nothing is left in the exchange */
    bool is_killed;
    bool closes;
    unsigned code;
};

/* Moves n_max bytes of the answer at most to `to`. */
void http_exchange_take_output(struct http_exchange *exchange, struct evbuffer *to, size_t n_max,
                               struct http_output *output_out);
/* Nothing of it was sent for a while: tells who answers. */
void http_exchange_tell_quiet(struct http_exchange *exchange);
bool http_exchange_is_answered(struct http_exchange *exchange);
/* All of the answer is there, though not delivered. */
bool http_exchange_is_answered_whole(struct http_exchange *exchange);
/* Whether the connection ends after it. Without effect once its answer has begun. */
void http_exchange_set_closes(struct http_exchange *exchange, bool closes);
/* The next exchange of a list from http_outbox_take; the exchange may be put again. */
struct http_exchange *http_exchange_unqueue(struct http_exchange *exchange);
/* It is over for the client, and the connection leaves it. Returns how it ended; *code_out: 0, it was not answered. */
enum status http_exchange_leave(struct http_exchange *exchange, enum status why,
                                unsigned *code_out);
