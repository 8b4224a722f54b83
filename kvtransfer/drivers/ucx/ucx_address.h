/*
 * ucx_address - whether bytes that a peer tells can be handed to UCX as a worker's address.
 *
 * U27: ucp_ep_create takes no length. It reads on until the bytes say that they end, and ends the process
 * ("Assertion `*addr_version == UCP_OBJECT_VERSION_V2' failed", or one in the choice of lanes) when they
 * are none of its own. What follows is all of UCX's packing, version 1 and without endpoints, that is
 * looked at; nothing is understood of devices and transports, which UCX itself compares with its own.
 *
 *     u8   0x20: version 1, with a uuid         u64  uuid
 *     a device, or more
 *         u8   domain, with 0x80: no transports
 *         u8   0x80: the last device; 0x40, 0x20: a byte more behind this one, each; 0x1f: n
 *         n    its address
 *         a transport, or more
 *             u16  its name's checksum          f32  overhead, bandwidth, latency       u32  flags
 *             u8   0x80: the last of the device; 0x40: endpoints, refused; 0x3f: n
 *             n    its address
 *
 * What comes over the connection is UCX's to parse, and what is no UCX ends the process, too (tcp_ep.c's
 * assertions): over am-tcp a worker can still be killed by a member of the cluster whose address names a port
 * that speaks something else. tls and unix are parsed here (stream_frame.h).
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True: UCX reads these bytes, all of them and no more, and no figure in them is out of the world. */
bool ucx_address_is_sane(const uint8_t *bytes, size_t n_bytes);

/* Bit n: a device of it has an address of n bytes. 0: it is not sane, or has none. Workers reach each other only
 * if they share one: 1.13 describes a loopback in 18 bytes, 1.22 in 14, and both a network's device alike. */
uint32_t ucx_address_device_lengths(const uint8_t *bytes, size_t n_bytes);
