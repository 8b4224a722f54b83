/*
 * metrics_server - GET /metrics and /healthz over plain HTTP.
 *
 *     /metrics   200, metrics_text
 *     /healthz   200 "ok" or 503 "not healthy", as the callback says
 *
 * Bounds: CONNECTIONS_MAX connections, each closed after 10 s of silence; a request is read whole
 * into a fixed buffer and has no body that counts.
 *
 * Thread: one of its own, which calls metrics_text and the callback; open and close from any one.
 */
#pragma once

#include "base/metrics.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define METRICS_SERVER_CONNECTIONS_MAX 32

struct metrics_server;

struct metrics_server_options {
    const char *address; /* "127.0.0.1:9400", "[::1]:0"; port 0: any free one; ":9400": loopback */
    const struct metrics *metrics; /* borrowed until close */
    bool (*is_healthy)(void *arg); /* any time, on the server's thread; NULL: always healthy */
    void *arg;
};

/* INVALID_ARGUMENT: the address cannot be read. IO_FAILED: it cannot be bound. */
MUST_CHECK enum status metrics_server_open(const struct metrics_server_options *options,
                                           struct metrics_server **server_out, struct error *error);
void metrics_server_close(struct metrics_server *server);          /* NULL is fine */
uint16_t metrics_server_port(const struct metrics_server *server); /* the bound one */
