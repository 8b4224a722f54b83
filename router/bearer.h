/*
 * bearer - the token in the metadata `authorization` (RFC 6750).
 *
 * Thread: any; no state.
 */
#pragma once

#include <stddef.h>

#define BEARER_TOKEN_MAX 512u /* bytes */

/* What follows "Bearer " in value, which may be written in any case; borrowed, 1 .. BEARER_TOKEN_MAX bytes, of
 * any kind. NULL: there is none. */
const char *bearer_token(const char *value, size_t bytes, size_t *bytes_out);
