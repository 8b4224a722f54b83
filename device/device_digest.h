/*
 * device_digest - the kernels by which a device with memory of its own digests: the two of the image that it loads that are
 * called so. A device whose image has none of them copies the bytes to the host for it.
 *
 *     digest           one CTA each DEVICE_DIGEST_PIECE_BYTES of bytes: its part of the CRC32C, into partials
 *     digest_combine   one CTA: all parts, into out
 *
 * Both take the same parameters. What kernels/cuda has is compared with this where the image is made (kernels/cuda/image.c).
 */
#pragma once

#include <stdint.h>

#define DEVICE_DIGEST_KERNEL       "digest"
#define DEVICE_DIGEST_COMBINE      "digest_combine"
#define DEVICE_DIGEST_THREADS      256u
#define DEVICE_DIGEST_SHARED_BYTES 4096u
#define DEVICE_DIGEST_PIECE_BYTES  65536u

struct device_digest_parameters {
    const uint8_t *bytes; /* [n_bytes] */
    uint64_t n_bytes;     /* at least 1 */
    uint32_t *partials;   /* [n_pieces], of the device; for as long as the two kernels run */
    uint32_t *out;        /* of the device */
    uint32_t n_pieces;    /* n_bytes / DEVICE_DIGEST_PIECE_BYTES, rounded up */
    uint32_t reserved;
};
