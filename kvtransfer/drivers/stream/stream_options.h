/*
 * stream_options - what a transport over streams is opened with.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

enum stream_driver { STREAM_UNIX, STREAM_TLS };

/* Where the options say 0. */
#define STREAM_UNPROVEN_MAX 64u
#define STREAM_PROOF_NS     2000000000ull

struct stream_options {
    enum stream_driver driver;
    uint64_t incarnation;
    const char *net_devices; /* tls: "eth0", "lo"; NULL or "": all */
    const char *port_range;  /* tls: "20000-20009"; NULL or "": any */
    uint32_t peers_max;      /* connected or admitted, closing ones included */
    uint32_t gets_max;       /* pieces asked for and not arrived, all peers */
    uint32_t reads_max;      /* pieces asked for and not sent, all peers */
    uint32_t pieces_max;     /* of these, of one reader, as its Describe tells it; 0: all */
    uint32_t unproven_max;   /* connections that have not proved who they are */
    uint64_t proof_ns;       /* that each has to do so, and a connection to an owner to be open */
};

/* Checks the devices and the range of ports as stream_transport_open does. Opens nothing. */
MUST_CHECK enum status stream_options_check(const struct stream_options *options,
                                            struct error *error);
