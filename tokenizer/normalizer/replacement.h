/*
 * replacement - Replace of tokenizer.json: replaces the matches of a pattern by a text. Normalizers
 * and decoders may have it.
 *
 * Thread: immutable once read; a struct rewritten belongs to one call.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* No text that was rewritten is longer. */
#define REWRITTEN_BYTES_MAX ((size_t)64 << 20)

struct field;
struct split_matcher;
struct split_pattern;

/* A text of its own, which grows. Zero at first. */
struct rewritten {
    char *bytes; /* UTF-8, valid, not terminated */
    size_t n_bytes;
    size_t bytes_max;
    bool is_moved; /* its first character does not come from the first one of the input */
};

/* NO_MEMORY, INVALID_ARGUMENT: beyond REWRITTEN_BYTES_MAX. */
MUST_CHECK enum status rewritten_append(struct rewritten *text, const char *bytes, size_t n_bytes,
                                        struct error *error);
/* Room for as many bytes in all. NO_MEMORY. */
MUST_CHECK enum status rewritten_reserve(struct rewritten *text, size_t bytes_max);
void rewritten_finish(struct rewritten *text);

struct replacement {
    struct split_pattern *pattern;
    char *content;
    size_t n_content;
};

/* Reads {"pattern": {"String" or "Regex": ..}, "content": ..}. CORRUPT, UNSUPPORTED: error names the
 * field. NO_MEMORY. On failure nothing is kept. */
MUST_CHECK enum status replacement_init(struct replacement *replacement, const struct field *field,
                                        struct error *error);
/* The content alone, which has that name there; replacement is zeroed and stays so on failure. Fails
 * as replacement_init does. */
MUST_CHECK enum status replacement_take_content(struct replacement *replacement,
                                                const struct field *field, const char *name,
                                                struct error *error);
void replacement_finish(struct replacement *replacement); /* a zeroed one is fine */

/* Fails as rewritten_append and split_pattern_next do; the text is then as it was. */
MUST_CHECK enum status replacement_apply(const struct replacement *replacement,
                                         struct split_matcher *matcher,
                                         struct rewritten *text_inout, struct error *error);
