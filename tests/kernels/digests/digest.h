/*
 * digest - the bits of results as one number, to be compared between machines of different instructions.
 *
 * Thread: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DIGEST_BEGIN 0xcbf29ce484222325u

/* FNV-1a of bytes, behind those that are in digest. */
uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t n);

/* The same of n floats. Every NaN counts as one: machines differ in the sign of a NaN that they make. */
uint64_t digest_floats(uint64_t digest, const float *x, size_t n);
