/*
 * special_barriers - where the marks of a text were (special_tokens.h), and which tokens they split.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places in a text without its marks, ascending: bytes before each. */
struct special_barriers {
    const size_t *places; /* [n] */
    size_t n;
};

/* Whether a token of the text, from begin to end, has one inside; two behind it, for a token of one character. */
bool special_barriers_split(const struct special_barriers *barriers, const char *text, size_t begin,
                            size_t end);

/* text without its marks, and where they were; the caller frees both. NO_MEMORY. */
MUST_CHECK enum status special_marks_take(const char *text, size_t n_bytes, uint32_t mark,
                                          char **text_out, size_t *n_bytes_out, size_t **places_out,
                                          size_t *n_places_out);

/* Those in a stretch of the text, at least at its begin and at most at its end; of places of the whole text. */
struct special_barriers special_barriers_within(const struct special_barriers *barriers,
                                                size_t begin, size_t end);
