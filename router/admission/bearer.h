/*
 * bearer - the token in the metadata `authorization` (RFC 6750).
 *
 * Thread: any; no state.
 */
#pragma once

#include <stddef.h>

#define BEARER_TOKEN_MAX 512u /* bytes */

/* The text after "Bearer " (in any case) in value; borrowed, 1 .. BEARER_TOKEN_MAX arbitrary bytes. NULL: no token. */
const char *bearer_token(const char *value, size_t bytes, size_t *bytes_out);
