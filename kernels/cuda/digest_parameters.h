/*
 * digest_parameters - the arguments of the two kernels that compute a CRC32C: digest.cuh.
 *
 *     digest           one CTA for each piece: writes its part of the CRC to partials
 *     digest_combine   one CTA: combines all parts into out
 *
 * Both take the same parameters and are launched one after the other, with DIGEST_THREADS threads a CTA and
 * DIGEST_SHARED_BYTES of shared memory.
 */
#pragma once

#include "kernels/cuda/parameters.h"

#define DIGEST_THREADS      256u
#define DIGEST_PIECE_BYTES  65536u
#define DIGEST_SHARED_BYTES (4u * 256u * 4u)

PARAMETERS_BEGIN

struct digest_parameters {
    const uint8_t
        *bytes; /* [n_bytes], any alignment; fastest if address and n_bytes are multiples of 4 */
    uint64_t n_bytes;
    uint32_t *partials; /* workspace, [n_pieces]: a word for each 64 KiB */
    uint32_t *out;      /* crc32c(0, bytes, n_bytes); device memory, or the host's mapped */
    uint32_t
        n_pieces; /* n_bytes / DIGEST_PIECE_BYTES, rounded up: the grid of digest; 0: only combine */
    uint32_t reserved;
};

PARAMETERS_END
