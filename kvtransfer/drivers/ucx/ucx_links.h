/*
 * ucx_links - waits until the network devices for the data have their link.
 *
 * UCX lists the devices once, when it is opened. It never uses a device that the kernel does not call running at
 * that time. The worker's address then lacks that device, and no other machine can reach the worker. The device of
 * a container exists before its program starts, but the kernel calls it running up to a second later.
 *
 * Thread: any; no state.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

/* Waits for at most limit_ns until every device that is up and has an address is running. devices: "eth0,eth1"; NULL
 * or "": all but bridges, which have no link while nothing is attached to them. False: missing_out is the first that
 * is not running, or "" when the devices cannot be listed. */
bool ucx_links_wait(const char *devices, uint64_t limit_ns, char missing_out[IF_NAMESIZE]);
