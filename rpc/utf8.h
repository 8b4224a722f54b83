/*
 * utf8 - what a protobuf string must be: UTF-8 without NUL.
 *
 * Refused: overlong forms, surrogates, code points over 10FFFF, and NUL, which would cut the
 * string short for whoever reads it as a C string.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of the longest good prefix: n_bytes when all is good. */
size_t rpc_utf8_valid_prefix(const uint8_t *bytes, size_t n_bytes);

/* Copies n_bytes as a C string of at most out_bytes with its NUL, cut at a character's border;
 * control characters and bad bytes become '?'. */
void rpc_utf8_clean(const char *bytes, size_t n_bytes, char *out, size_t out_bytes);
