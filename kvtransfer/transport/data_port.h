/*
 * data_port - the network devices, addresses and ports at which a worker listens for readers.
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

/* Lists the addresses of the devices, at most HOST_ADDRESSES_MAX. For all devices, it lists loopback addresses
 * only when there are no others. It leaves out link-local addresses, which differ in meaning on every host.
 * UNSUPPORTED: there is none. */
MUST_CHECK enum status data_port_hosts(const struct data_port *port,
                                       struct host_address hosts_out[HOST_ADDRESSES_MAX],
                                       uint32_t *n_out, struct error *error);

/* Opens a non-blocking socket that listens at that address; tells its port. IO_FAILED: no port of the range is
 * free. */
MUST_CHECK enum status data_port_listen(const struct data_port *port,
                                        const struct host_address *host, int *fd_out,
                                        uint16_t *port_out, struct error *error);
