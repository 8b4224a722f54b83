/*
 * json_text - the text of a JSON file of a model's folder as a document, wherever it is read.
 *
 * An integer beyond 64 bits is no mistake: Transformers writes 1000000000000000019884624838656 for
 * "no limit". A document with one has real numbers for all of its integers, so readers take numbers
 * by json_number_value. NaN, Infinity and -Infinity, which Python writes, become texts of that name: a
 * reader that wants a number refuses them, and who does not look at the key passes them over. Refused
 * with line and column: twice the same key (it would be left to chance which one counts), comments and
 * a byte order mark, as the JSON of RFC 8259 does.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* flags: JSON_ALLOW_NUL for a reader that knows lengths, or 0. file names the text in sentences. The
 * caller owns *root_out, of any type.
 * CORRUPT: no JSON. UNSUPPORTED: U+0000 in a key, or in a text without that flag. NO_MEMORY. */
MUST_CHECK enum status json_text_parse(const char *text, size_t bytes, const char *file,
                                       size_t flags, json_t **root_out, struct error *error);

/* Whether a text is what became of such a number. */
bool json_text_is_constant(const char *text);
