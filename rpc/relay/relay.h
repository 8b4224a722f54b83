/*
 * relay - owns the accepted sockets of one gRPC port, and gives gRPC's core one end of a socket pair for
 * each. README.md says why.
 *
 *     relay_open      listens, but does not accept yet
 *     relay_start     its thread accepts and relays
 *     relay_send_away tells clients to send new calls elsewhere
 *     relay_quit      waits until each call has its answer, ends the connections and accepts no more
 *     relay_close     accepts no more; after it returns, the core gets no new connection
 *     relay_destroy   waits a moment until the core's last output is sent, then closes all
 *
 * Connections beyond a limit are refused (limits.h). If the port is full, a new connection may replace
 * another (places.h). The thread sleeps until an event or a timer.
 *
 * Thread: the owner's, which is not the relay's thread; hand_over runs on the relay's thread.
 */
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "rpc/relay/limits.h"

#include <stdint.h>

#define RELAY_QUIT_NS NS_PER_S

struct relay;

struct relay_options {
    const char *address; /* listener.h */
    struct relay_limits limits;
    struct tls_files *tls;               /* NULL: clear text. Outlives it */
    const struct relay_metrics *metrics; /* may be NULL; else outlives it */
    /* fd: the core's end, non-blocking; the callee owns it. peer_table.h has the client. */
    void (*hand_over)(void *arg, int fd);
    void *arg;
};

/* address is borrowed during the call, limits.exempt until destroy. IO_FAILED, INVALID_ARGUMENT: it
 * cannot listen there, or exempt is no list of networks; error says which. NO_MEMORY. */
MUST_CHECK enum status relay_open(const struct relay_options *options, struct error *error,
                                  struct relay **relay_out);
uint16_t relay_port(const struct relay *relay); /* 0: a Unix socket */
/* NO_THREAD with a sentence. */
MUST_CHECK enum status relay_start(struct relay *relay, struct error *error);
/* Tells the connected clients to open new streams on another connection (GOAWAY). Open streams continue, and later
 * connections are served as usual. Does not block. */
void relay_send_away(struct relay *relay);
/* The graceful shutdown of HTTP/2: every client, also one that connects meanwhile, gets a GOAWAY with the highest
 * stream, and a PING. When it has acknowledged the PING and its calls are answered, it gets a GOAWAY with its last
 * stream, and the connection ends. Blocks until all connections have ended, at most RELAY_QUIT_NS; handlers must
 * continue to answer meanwhile. Then the connections that are left end, and the port is closed. No client is told that a
 * call which the core has seen was not seen: it would retry at a closed port. NULL, or a relay that was never started, is
 * fine. */
void relay_quit(struct relay *relay);
void relay_close(struct relay *relay);   /* fine if NULL or never started */
void relay_destroy(struct relay *relay); /* NULL is fine */

/* How often accept failed in this process without a free descriptor. Any thread. */
uint64_t relay_failed_accepts(void);
