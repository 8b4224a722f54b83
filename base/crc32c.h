/*
 * crc32c - the Castagnoli CRC (RFC 3720, appendix B.4): finds damaged KV bytes, not forged ones.
 *
 * Chosen once a process by what the CPU has: SSE4.2's instruction on three interleaved streams, or
 * tables of eight bytes a step. Both give the same result.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* crc is 0 to start with, or the result for the bytes before these. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
