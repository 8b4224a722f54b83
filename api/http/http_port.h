/*
 * http_port - a port that speaks HTTP/1.1, in clear text or under TLS.
 *
 *     accept -> (TLS handshake) -> head -> doorkeeper -> body -> route's handler -> answer -> next head ...
 *                                                                                \-> end
 *
 * Requests of a connection are answered one after the other, in order; what a client sends ahead waits in its socket. A
 * request that breaks HTTP or a limit gets an answer with a sentence, and mostly the end of its connection. Routes are
 * looked up by the decoded path: none 404; another method 405 with Allow; HEAD where there is GET; OPTIONS is answered
 * where the route does not take it.
 *
 * Bounds: http_limits.h. A full port closes an idle connection for a new one, or answers 503; an address with too many
 * gets 429. Under TLS, where nothing can be said before a handshake, both are a reset.
 *
 * Threads: one that accepts, reads, calls doorkeeper and handlers, and sends; one for TLS handshakes. Functions here are
 * the owner's, any thread but those.
 */
#pragma once

#include "api/http/http_exchange.h"
#include "api/http/http_limits.h"
#include "api/http/http_route.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_port;
struct tls_files;

struct http_port_options {
    const char *address; /* rpc/relay/listener.h; borrowed for the call */
    struct http_limits limits;
    const struct http_route *routes; /* the first that fits counts. Outlives it */
    size_t n_routes;
    /* NULL: everybody may enter; errors are a sentence of plain text. They outlive every exchange. */
    const struct http_doorkeeper *doorkeeper;
    const struct http_error_form *error_form;
    struct tls_files *tls;              /* NULL: clear text. Outlives it */
    const struct http_metrics *metrics; /* may be NULL; else outlives it */
};

/* INVALID_ARGUMENT, IO_FAILED: cannot listen there, or limits.exempt is no list, said in error. NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status http_port_open(const struct http_port_options *options, struct error *error,
                                      struct http_port **port_out);
uint16_t http_port_number(const struct http_port *port); /* the bound one; 0: of a Unix socket */

/* Nobody is accepted any more, idle connections end, and each answer ends its connection. Does not wait. */
void http_port_drain_start(struct http_port *port);
/* The same, and waits until all requests are answered, limit_ns at most. True: they are. */
bool http_port_drain(struct http_port *port, uint64_t limit_ns);
/* What is not answered is cut; on_end of each exchange has been called when it returns. NULL is fine. */
void http_port_close(struct http_port *port);
