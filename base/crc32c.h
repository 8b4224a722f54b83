/*
 * crc32c - the Castagnoli CRC (RFC 3720, appendix B.4): finds damaged KV bytes, not forged ones.
 *
 * Chosen once a process by what the CPU has; KVFERRY_CPU (reference, avx2, avx512: see kernels.h)
 * chooses less. All give the same result.
 *
 *     reference   tables, eight bytes a step
 *     avx2        SSE4.2's instruction on three interleaved streams
 *     avx512      VPCLMULQDQ, 256 bytes a step
 *
 * Global state: that choice and its tables, made once under the first call.
 * Thread: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* crc is 0 to start with, or the result for the bytes before these. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same, and copies the bytes to where they may not overlap; memory is gone through once. */
uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t bytes);
