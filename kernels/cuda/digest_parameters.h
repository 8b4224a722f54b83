/*
 * digest_parameters - arguments of the two kernels that make a CRC32C: digest.cuh.
 *
 *     digest           one CTA a piece: its part of the CRC, into partials
 *     digest_combine   one CTA: all parts, into out
 *
 * Both take the same parameters and are launched one behind the other, DIGEST_THREADS threads a CTA, DIGEST_SHARED_BYTES
 * of shared memory.
 */
#pragma once

#include "kernels/cuda/parameters.h"

#define DIGEST_THREADS      256u
#define DIGEST_PIECE_BYTES  65536u
#define DIGEST_SHARED_BYTES (4u * 256u * 4u)

PARAMETERS_BEGIN

struct digest_parameters {
    const uint8_t
        *bytes; /* [n_bytes], of any alignment; at multiples of 4, with n_bytes one, fastest */
    uint64_t n_bytes;
    uint32_t *partials; /* workspace, [n_pieces]: a word for each 64 KiB */
    uint32_t *out; /* what crc32c(0, bytes, n_bytes) gives; device memory, or the host's mapped */
    uint32_t
        n_pieces; /* n_bytes / DIGEST_PIECE_BYTES, rounded up; the grid of digest, 0: combine alone */
    uint32_t reserved;
};

PARAMETERS_END
