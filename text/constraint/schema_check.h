/*
 * schema_check - refuses JSON schemas that would take too much, before anything is compiled.
 *
 * What grows fast in few bytes is counted over the whole schema; a refusal names the keyword and its place, as "$.properties.a.not".
 * What a keyword means is llguidance's business, and what it does not know it refuses itself.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>

#define SCHEMA_DEPTH_MAX        64    /* of objects and arrays in one another */
#define SCHEMA_VALUES_MAX       8192  /* objects and arrays */
#define SCHEMA_REQUIRED_MAX     8192  /* names that must be there, of all objects */
#define SCHEMA_STRING_BYTES_MAX 32768 /* of one string */
/* As JSON. Each byte is a state of llguidance's lexer, which has 50,000 of them for a reply, and is looked at again at each step before it. */
#define SCHEMA_CONSTANT_BYTES_MAX 16384 /* of all const, and of the longest value of each enum */
#define SCHEMA_TEXT_BYTES_MAX     40000 /* of these and all names of properties */
#define SCHEMA_MULTIPLE_MAX                                                                        \
    20000 /* least common multiple of all multipleOf, in units of their last digit */
#define SCHEMA_OPTIONAL_MAX      1000  /* properties that need not be there, of all objects */
#define SCHEMA_PATTERNS_MAX      32    /* patternProperties, of all objects */
#define SCHEMA_PATTERN_BYTES_MAX 65536 /* of all patterns */

/* text: UTF-8. INVALID_ARGUMENT: error says what is wrong, and where. NO_MEMORY. */
MUST_CHECK enum status schema_check(const char *text, size_t n_bytes, struct error *error);
