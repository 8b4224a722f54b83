/*
 * ucx_address - checks whether the bytes that a peer tells are a worker address that UCX can read.
 *
 * U27: ucp_ep_create takes no length. It reads until the bytes say that they end. When they are not an address,
 * it ends the process ("Assertion `*addr_version == UCP_OBJECT_VERSION_V2' failed", or one in the choice of
 * lanes). The check covers this part of UCX's packing, version 1 and without endpoints. It does not interpret
 * devices and transports: UCX compares those with its own.
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
 * UCX parses what comes over a connection, and ends the process when it is not UCX's protocol (assertions in
 * tcp_ep.c). Over am-tcp a member of the cluster can still kill a worker: its address may name a port that speaks
 * another protocol. This program parses tls and unix itself (stream_frame.h).
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True: UCX reads exactly these bytes, and every number in them is plausible. */
bool ucx_address_is_sane(const uint8_t *bytes, size_t n_bytes);

/* Bit n is set when a device has an address of n bytes. 0: the address is not sane, or has no device. Two workers
 * reach each other only if they share a length: UCX 1.13 describes a loopback device in 18 bytes and UCX 1.22 in 14;
 * both describe a network device alike. */
uint32_t ucx_address_device_lengths(const uint8_t *bytes, size_t n_bytes);
