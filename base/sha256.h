/*
 * sha256 - SHA-256 and HMAC-SHA256, with OpenSSL.
 *
 * Thread: any; a struct sha256_sum belongs to one.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u
#define SHA256_TEXT  (2 * SHA256_BYTES + 1) /* as hex digits, NUL included */

struct sha256 {
    uint8_t bytes[SHA256_BYTES];
};

/* IO_FAILED, for all functions: OpenSSL refuses the algorithm (a policy of the machine), or has no
 * memory. */
MUST_CHECK enum status sha256_of(const void *data, size_t bytes, struct sha256 *hash_out);
MUST_CHECK enum status sha256_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                                  struct sha256 *mac_out);

/* The hash of data that arrives in pieces: begin, add, and always end, which also reports an earlier
 * failure. */
struct sha256_sum {
    struct evp_md_ctx_st *context; /* NULL: failed */
};

void sha256_begin(struct sha256_sum *sum_out);
void sha256_add(struct sha256_sum *sum, const void *data, size_t bytes);
MUST_CHECK enum status sha256_end(struct sha256_sum *sum, struct sha256 *hash_out);

/* Compares in constant time. */
bool sha256_equal(const struct sha256 *a, const struct sha256 *b);

void sha256_format(const struct sha256 *hash, char text_out[SHA256_TEXT]);
/* CORRUPT: not exactly 64 hex digits, lower or upper case. */
MUST_CHECK enum status sha256_parse(const char *text, size_t length, struct sha256 *hash_out);
