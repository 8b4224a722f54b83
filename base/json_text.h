/*
 * json_text - the text of a JSON file of a model's folder as a document, wherever it is read.
 *
 * An integer beyond 64 bits is no mistake: Transformers writes 1000000000000000019884624838656 for
 * "no limit". A document with one has real numbers for all of its integers, so readers take numbers
 * by json_number_value. Refused with line and column: twice the same key (it would be left to chance
 * which one counts), NaN, Infinity, comments and a byte order mark, as the JSON of RFC 8259 does.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

/* flags: JSON_ALLOW_NUL for a reader that knows lengths, or 0. file names the text in sentences. The
 * caller owns *root_out, of any type.
 * CORRUPT: no JSON. UNSUPPORTED: U+0000 in a key, or in a text without that flag. NO_MEMORY. */
MUST_CHECK enum status json_text_parse(const char *text, size_t bytes, const char *file,
                                       size_t flags, json_t **root_out, struct error *error);
