/*
 * token_source - the bearer token of a client command: a file's, else KVFERRY_TOKEN's.
 *
 * Thread: main. Takes KVFERRY_TOKEN out of the environment, so that no child has it.
 */
#pragma once

#include "base/status.h"

#define TOKEN_VALUE_MAX 600u /* "Bearer " and the token, NUL included */

/* The value of the metadata `authorization`, or "" without a token. file "": the variable.
 * NOT_FOUND, IO_FAILED: the file; CORRUPT: empty, too long, or no printable ASCII. */
MUST_CHECK enum status token_source_read(const char *file, char value_out[TOKEN_VALUE_MAX],
                                         struct error *error);
