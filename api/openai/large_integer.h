/*
 * large_integer - which member of a body has an integer beyond 64 bits: JSON may have some, the parser takes none.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/openai_error.h"

#include <jansson.h>

/* Sets the error if that is why the body was not read. why: the parser's, of JSON_ALLOW_NUL. */
void large_integer_refuse(const char *body, size_t bytes, const json_error_t *why,
                          struct openai_error *error);
