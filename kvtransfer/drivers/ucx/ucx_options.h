/*
 * ucx_options - the options of a transport over UCX, and UCX's own options for it. This program sets every
 * option that matters, so that no UCX_* variable of the environment changes the data path.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* What one of UCX's TCP segments (64 KiB) holds with both headers. UCX puts longer messages together in memory of its own before
 * it hands them over: a copy more. */
#define UCX_PIECE_BYTES (60u * 1024u)

struct ucp_config;

struct ucx_options {
    uint64_t incarnation;
    const char *net_devices; /* "eth0", "lo"; NULL or "": all */
    const char *port_range;  /* "20000-20009"; NULL or "": any */
    uint32_t peers_max;      /* connected or admitted, closing ones included */
    uint32_t gets_max;       /* pieces asked for and not arrived, all peers */
    uint32_t reads_max;      /* pieces asked for and not sent, all peers */
    uint32_t pieces_max;     /* of these, of one reader, as its Describe tells it; 0: all */
};

/* Checks the devices and the range of ports as ucx_transport_open does. Opens nothing. */
MUST_CHECK enum status ucx_options_check(const struct ucx_options *options, struct error *error);

/* Makes UCX's configuration of them, which the caller releases. */
MUST_CHECK enum status ucx_options_read(const struct ucx_options *options,
                                        struct ucp_config **config_out, struct error *error);
