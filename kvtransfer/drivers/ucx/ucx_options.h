/*
 * ucx_options - what a transport over UCX is opened with, in UCX's own words: every option that matters is
 * written by us, so that no UCX_* variable of the environment changes the data path unseen.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

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

/* Refuses what ucx_transport_open would of the devices and the range of ports; opens nothing. */
MUST_CHECK enum status ucx_options_check(const struct ucx_options *options, struct error *error);

/* As a configuration of UCX's, which the caller releases. */
MUST_CHECK enum status ucx_options_read(const struct ucx_options *options,
                                        struct ucp_config **config_out, struct error *error);
