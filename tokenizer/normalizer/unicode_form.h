/*
 * unicode_form - the normalization forms of Unicode: NFC, NFD, NFKC and NFKD (UAX 15).
 *
 * libutf8proc has the tables and the composition; marks are put in order here, by a stable
 * counting sort, because the library's own sort is quadratic in a run of marks.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>

enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD };

/* text is valid UTF-8. *normal_out is the caller's to free, or NULL when text is ASCII and thus
 * normal as it is. At most 16 bytes are used for a byte of text, 64 for one of NFKC and NFKD.
 * NO_MEMORY. */
MUST_CHECK enum status unicode_normalize(const char *text, size_t n_bytes, enum unicode_form form,
                                         char **normal_out, size_t *n_normal_out);
