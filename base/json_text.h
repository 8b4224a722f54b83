/*
 * json_text - parses the JSON files of a model's folder; all readers use it.
 *
 * An integer beyond 64 bits is accepted: Transformers writes 1000000000000000019884624838656 for "no
 * limit". In a document with such an integer all integers become real numbers, so readers use
 * json_number_value. NaN, Infinity and -Infinity, which Python writes, become strings with these
 * names: a reader that needs a number refuses them, and keys that are not read are ignored. Refused
 * with line and column: a duplicate key (chance would decide which one counts), comments, and a byte
 * order mark, as RFC 8259 says.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* flags: JSON_ALLOW_NUL for a reader that uses the lengths of strings, or 0. file names the text in
 * sentences. The caller owns *root_out, of any type.
 * CORRUPT: no JSON. UNSUPPORTED: U+0000 in a key, or in a text without that flag. NO_MEMORY. */
MUST_CHECK enum status json_text_parse(const char *text, size_t bytes, const char *file,
                                       size_t flags, json_t **root_out, struct error *error);

/* Whether a string stands for one of these three numbers. */
bool json_text_is_constant(const char *text);
