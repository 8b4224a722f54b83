/*
 * device_digest - the two kernels, by name, with which a device with its own memory computes digests. A device whose
 * image does not have them copies the bytes to the host for that.
 *
 *     digest           one CTA for each DEVICE_DIGEST_PIECE_BYTES: writes its part of the CRC32C to partials
 *     digest_combine   one CTA: combines all parts into out
 *
 * Both take the same parameters. kernels/cuda/image.c compares its kernels with this.
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
    uint32_t *partials;   /* [n_pieces], device memory, until the two kernels have run */
    uint32_t *out;        /* of the device */
    uint32_t n_pieces;    /* n_bytes / DEVICE_DIGEST_PIECE_BYTES, rounded up */
    uint32_t reserved;
};
