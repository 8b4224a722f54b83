/*
 * onig_syntax - rewrites a pattern of Oniguruma's Ruby syntax for PCRE2 (UTF, UCP).
 *
 * split_pattern.h says what it accepts and what it rewrites. Thread: any.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>

/* No construct becomes more than this many times as long. */
#define ONIG_SYNTAX_GROWTH 13

/* text_out has room for ONIG_SYNTAX_GROWTH * n_bytes. UNSUPPORTED, CORRUPT: where is the field. */
MUST_CHECK enum status onig_syntax_translate(const char *pattern, size_t n_bytes, const char *where,
                                             struct error *error, char *text_out,
                                             size_t *n_text_out);
