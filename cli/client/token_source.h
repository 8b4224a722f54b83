/*
 * token_source - the bearer token of a client command: from a file, else from KVFERRY_TOKEN.
 *
 * Thread: main. Removes KVFERRY_TOKEN from the environment, so that child processes do not have it.
 */
#pragma once

#include "base/status.h"

#define TOKEN_VALUE_MAX 600u /* "Bearer " and the token, NUL included */

/* The value of the metadata `authorization`, or "" without a token. file "": the variable.
 * NOT_FOUND, IO_FAILED: the file cannot be read; CORRUPT: empty, too long, or not printable ASCII. */
MUST_CHECK enum status token_source_read(const char *file, char value_out[TOKEN_VALUE_MAX],
                                         struct error *error);
