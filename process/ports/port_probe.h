/*
 * port_probe - whether one of this process's own gRPC ports still accepts connections.
 *
 * The kernel goes on completing connections to a socket that nobody accepts on. A connection proves
 * nothing, then; that an answer arrives on it, or its end, does. The probe says HTTP/2's preface.
 *
 * It begins only when an accept has failed (rpc_failed_accepts), and the port is dead after PORT_PROBES_SILENT connections of our own, one after the other, each without a byte for
 * PORT_PROBE_LIMIT_NS. So a flood alone, however slow it makes the answers, never makes a port dead;
 * nor does a probe that gets no descriptor, port or connection for itself, which counts nothing. A
 * port that answers is alive, until an accept fails again.
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
    int fd; /* -1: no probe is under way */
    bool has_spoken;
    uint64_t began_ns;
    uint64_t n_failures_begun; /* of accept, in the process, when the probe began */
    uint64_t n_failures_known; /* those that were not this port's death */
    uint32_t n_silent;         /* probes in a row */
};

/* address: as bound; looked up once. INVALID_ARGUMENT: nowhere. */
MUST_CHECK enum status port_probe_init(struct port_probe *probe, const struct address *address,
                                       uint64_t n_accept_failures, struct error *error);
void port_probe_finish(struct port_probe *probe);

/* Begins, continues or ends a probe, if there is reason for one. True: the port is dead. */
bool port_probe_is_dead(struct port_probe *probe, uint64_t n_accept_failures, uint64_t now_ns);
