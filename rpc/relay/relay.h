/*
 * relay - owns the accepted sockets of one gRPC port, and gives the core one end of a socket pair for
 * each: README.md says why.
 *
 *     relay_open      listens; nobody is accepted yet
 *     relay_start     its thread accepts and relays
 *     relay_send_away its clients' next calls go elsewhere
 *     relay_quit      so that each call has an answer, and who calls next finds no connection
 *     relay_close     nobody is accepted any more, and nothing new is handed over once it returned
 *     relay_destroy   waits a moment until what the core said last has left, then ends all
 *
 * Connections beyond a limit are refused (limits.h) or, where the port is full, another ends for a newer one
 * (places.h). The thread sleeps while nothing comes and no time is over.
 *
 * Thread: the owner's, which is not the relay's; hand_over runs on the relay's.
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
    /* fd: the core's end, non-blocking, from now the callee's. peer_table.h knows who it is. */
    void (*hand_over)(void *arg, int fd);
    void *arg;
};

/* options' address is borrowed for the call, limits.exempt for good.
 * IO_FAILED, INVALID_ARGUMENT: cannot listen there, or exempt is no list, said in error. NO_MEMORY. */
MUST_CHECK enum status relay_open(const struct relay_options *options, struct error *error,
                                  struct relay **relay_out);
uint16_t relay_port(const struct relay *relay); /* 0: of a Unix socket */
/* NO_THREAD with a sentence. */
MUST_CHECK enum status relay_start(struct relay *relay, struct error *error);
/* Clients that are connected are told to open new streams on another connection (GOAWAY); what is open goes on, and who
 * connects later is served as ever. Does not block. */
void relay_send_away(struct relay *relay);
/* As HTTP/2 has it: every client, who connects meanwhile too, hears a GOAWAY with the highest stream, and a PING; when it
 * has confirmed that and its calls are answered, a GOAWAY with the last of them, and the connection ends. Blocks until
 * all have, at most RELAY_QUIT_NS; whoever serves goes on to answer meanwhile. Afterwards nothing is said any more that
 * makes a client believe that its call was never seen: it would try again, at a port that is closed.
 * NULL, or one never started, is fine. */
void relay_quit(struct relay *relay);
void relay_close(struct relay *relay);   /* NULL, or one never started, is fine */
void relay_destroy(struct relay *relay); /* NULL is fine */

/* How often, in this process, a connection could not be accepted for want of a descriptor. Any thread. */
uint64_t relay_failed_accepts(void);
