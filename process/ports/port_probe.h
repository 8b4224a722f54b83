/*
 * port_probe - checks that a gRPC port of this process still accepts connections.
 *
 * The kernel completes connections to a socket even if no thread accepts them. So a connection proves nothing, but an
 * answer on it, or its end, does. The probe sends HTTP/2's preface.
 *
 * Probing begins only after an accept has failed (rpc_failed_accepts). The port is dead after PORT_PROBES_SILENT probe
 * connections, one after the other, each without a byte for PORT_PROBE_LIMIT_NS. So a flood alone, even if answers are
 * slow, never makes a port dead. A probe that gets no descriptor, port or connection does not count. A port that
 * answers is alive until an accept fails again.
 *
 * Thread: main; never blocks.
 */
#pragma once

#include "process/ports/address.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define PORT_PROBE_LIMIT_NS 5000000000ull
#define PORT_PROBES_SILENT  3

struct port_probe {
    struct sockaddr_storage address;
    socklen_t address_bytes;
    int fd; /* -1: no probe is running */
    bool has_spoken;
    uint64_t began_ns;
    uint64_t n_failures_begun; /* failed accepts of the process when the probe began */
    uint64_t n_failures_known; /* failed accepts after which this port was found alive */
    uint32_t n_silent;         /* consecutive probes without an answer */
};

/* address: as bound; looked up once. INVALID_ARGUMENT: it has no address. */
MUST_CHECK enum status port_probe_init(struct port_probe *probe, const struct address *address,
                                       uint64_t n_accept_failures, struct error *error);
void port_probe_finish(struct port_probe *probe);

/* Begins, continues or ends a probe, if one is needed. True: the port is dead. */
bool port_probe_is_dead(struct port_probe *probe, uint64_t n_accept_failures, uint64_t now_ns);
