/*
 * device_digest - the kernel by which a device with memory of its own digests: the one of the image that is called
 * "digest". A device that loads none copies the bytes to the host for it.
 *
 * CRC32C of bytes[n_bytes]. One CTA each DEVICE_DIGEST_CHUNK_BYTES of them, the last may have fewer; *digest is 0 before it
 * begins, and each CTA exclusive-ors its share into it: a CRC is linear, so a chunk counts as if zeros stood
 * for all the others.
 */
#pragma once

#include <stdint.h>

#define DEVICE_DIGEST_KERNEL      "digest"
#define DEVICE_DIGEST_CHUNK_BYTES 16384u

struct device_digest_parameters {
    const uint8_t *bytes; /* [n_bytes], aligned to 16 */
    uint32_t *digest;
    uint64_t n_bytes; /* at least 1 */
};
