/*
 * descriptor_limit - raises the limit of open descriptors, and checks that it is enough.
 *
 * What the configuration allows should stay below the limit: beyond it connections are refused.
 *
 * Thread: main, at start.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Descriptors for files, queues and threads of the libraries, metrics scrapers: 24 were counted in
 * a busy worker. */
#define DESCRIPTORS_OWN            128
#define DESCRIPTORS_PER_PEER       8 /* a gRPC channel and UCX's connections, both ways */
#define DESCRIPTORS_PER_CONNECTION 3 /* the client's socket, and a socket pair to gRPC's core */

struct descriptor_needs {
    uint32_t n_ports;
    uint32_t connections_max; /* of one port */
    uint32_t peers_max;
    uint32_t feed_readers_max;     /* of the metrics port */
    uint32_t data_connections_max; /* unauthenticated ones at a worker's data port */
};

uint64_t descriptor_needs_sum(const struct descriptor_needs *needs);

/* Raises the soft limit to the hard one; warns if that is less than needed. UNSUPPORTED: it is less
 * than DESCRIPTORS_OWN. */
MUST_CHECK enum status descriptor_limit_raise(const struct descriptor_needs *needs,
                                              struct error *error);
