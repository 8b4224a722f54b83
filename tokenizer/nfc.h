/*
 * nfc - Unicode normalization form C of text.
 *
 * libutf8proc has the tables and the composition; marks are put in order here, by a stable
 * counting sort, because the library's own sort is quadratic in a run of marks.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>

/* text is valid UTF-8. *normal_out is the caller's to free, or NULL when text is ASCII and thus
 * normal as it is. At most 16 bytes are used for a byte of text.
 * NO_MEMORY. */
MUST_CHECK enum status nfc_normalize(const char *text, size_t n_bytes, char **normal_out,
                                     size_t *n_normal_out);
