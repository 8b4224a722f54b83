/*
 * descriptor_limit - as many open descriptors as the kernel allows, and whether that is enough.
 *
 * What the configuration allows should never reach the limit: beyond it connections are refused.
 *
 * Thread: main, at start.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Files, queues and threads of the libraries, scrapers: two dozen were counted in a busy worker. */
#define DESCRIPTORS_OWN            128
#define DESCRIPTORS_PER_PEER       8 /* a gRPC channel and UCX's connections, both ways */
#define DESCRIPTORS_PER_CONNECTION 3 /* the client's, and a socket pair to gRPC's core */

struct descriptor_needs {
    uint32_t n_ports;
    uint32_t connections_max; /* of a port */
    uint32_t peers_max;
    uint32_t data_connections_max; /* at a worker's data port, of whom nobody knows */
};

uint64_t descriptor_needs_sum(const struct descriptor_needs *needs);

/* Raises the soft limit to the hard one; warns when that is less than the needs.
 * UNSUPPORTED: not even DESCRIPTORS_OWN. */
MUST_CHECK enum status descriptor_limit_raise(const struct descriptor_needs *needs,
                                              struct error *error);
