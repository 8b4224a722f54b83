/*
 * base64 - bytes written as text (RFC 4648, section 4, with padding).
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that a text of n_text characters may decode to. */
static inline size_t base64_bytes_max(size_t n_text)
{
    return n_text / 4 * 3;
}

/* bytes_out: [base64_bytes_max(n_text)]. False: text is no base64, or has INT_MAX characters or more. */
bool base64_decode(const char *text, size_t n_text, uint8_t *bytes_out, size_t *n_bytes_out);

/* The text, terminated, which the caller frees. NULL: no memory, or n_bytes is INT_MAX / 2 or more. */
char *base64_encode(const uint8_t *bytes, size_t n_bytes);
