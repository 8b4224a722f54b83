/*
 * ucx_links - whether the network devices that data is to cross have their link.
 *
 * UCX lists the devices once, when it is opened, and leaves out for ever one that the kernel does not yet call
 * running; the worker's address then says nothing of it, and no other machine can reach the worker. A container's
 * device is there before its program starts, but the kernel calls it running up to a second later.
 *
 * Thread: any; no state.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

/* Waits until each of devices ("eth0,eth1"; NULL or "": all but bridges, which have no link of their own while
 * nothing is plugged in) that is up and has an address is running, at most limit_ns. False: missing_out is the
 * first that is not. Also false at once, with "", when the devices cannot be listed. */
bool ucx_links_wait(const char *devices, uint64_t limit_ns, char missing_out[IF_NAMESIZE]);
