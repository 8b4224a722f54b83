/*
 * http_outbox - what threads that answer hand to a port's thread: exchanges with something new, and the counts that
 * they share.
 *
 * Counted, as exchanges may be held longer than their port is open.
 *
 * Thread: any.
 */
#pragma once

#include "api/http/http_limits.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

struct http_exchange;
struct http_outbox;
struct http_error_form;
struct http_doorkeeper;

/* error_form, doorkeeper: as the port's options have them. NO_MEMORY. */
MUST_CHECK enum status http_outbox_create(const struct http_limits *limits,
                                          const struct http_error_form *error_form,
                                          const struct http_doorkeeper *doorkeeper,
                                          struct http_outbox **outbox_out);
struct http_outbox *http_outbox_share(struct http_outbox *outbox);
void http_outbox_release(struct http_outbox *outbox); /* NULL is fine */

int http_outbox_wake(
    const struct http_outbox *outbox); /* readable: there is something; base/wake.h */
const struct http_limits *http_outbox_limits(const struct http_outbox *outbox);
const struct http_error_form *http_outbox_error_form(const struct http_outbox *outbox);
const struct http_doorkeeper *http_outbox_doorkeeper(const struct http_outbox *outbox);

/* next: the exchange's own link, for whoever has it in the list. Wakes the port's thread if it may sleep. */
void http_outbox_put(struct http_outbox *outbox, struct http_exchange *exchange,
                     struct http_exchange **next);
/* All of them, oldest first, by their links; NULL: none. */
struct http_exchange *http_outbox_take(struct http_outbox *outbox);

void http_outbox_set_draining(struct http_outbox *outbox);
bool http_outbox_is_draining(const struct http_outbox *outbox);

/* Bytes of answers that no connection has taken yet. */
void http_outbox_add_unsent(struct http_outbox *outbox, size_t n);
void http_outbox_drop_unsent(struct http_outbox *outbox, size_t n);
/* How many a stream may have, and how long a reply may be: an even share when all together have too many. */
uint64_t http_outbox_unsent_max(const struct http_outbox *outbox);
uint64_t http_outbox_reply_max(const struct http_outbox *outbox);

/* Bytes of large bodies. False: there is no room. */
bool http_outbox_add_body(struct http_outbox *outbox, uint64_t n);
void http_outbox_drop_body(struct http_outbox *outbox, uint64_t n);
uint64_t http_outbox_body_bytes(const struct http_outbox *outbox);
