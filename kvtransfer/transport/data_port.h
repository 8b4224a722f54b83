/*
 * data_port - where a worker listens for those who read from it: network devices, their addresses, a
 * range of ports.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/transport/host_address.h"

#include <stdbool.h>
#include <stdint.h>

struct data_port {
    const char *devices; /* "eth0,lo"; NULL or "": all */
    const char *range;   /* "20000-20009"; NULL or "": any port */
};

/* INVALID_ARGUMENT: no such device, or no range. */
MUST_CHECK enum status data_port_check(const struct data_port *port, struct error *error);
bool data_port_has_device(const char *devices, const char *name); /* of the list "eth0,lo" */

/* Addresses of the devices, at most HOST_ADDRESSES_MAX; of all devices those of the loopback only
 * when there are no others. Link-local ones are left out: they mean something else on every host.
 * UNSUPPORTED: none. */
MUST_CHECK enum status data_port_hosts(const struct data_port *port,
                                       struct host_address hosts_out[HOST_ADDRESSES_MAX],
                                       uint32_t *n_out, struct error *error);

/* A socket that listens at that address, non-blocking, and its port. IO_FAILED: no port of the range
 * is free. */
MUST_CHECK enum status data_port_listen(const struct data_port *port,
                                        const struct host_address *host, int *fd_out,
                                        uint16_t *port_out, struct error *error);
