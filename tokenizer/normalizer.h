/*
 * normalizer - changes a text before it is split: a chain of at most NORMALIZER_STEPS_MAX of NFC,
 * Prepend and Replace.
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/replacement.h"

#include <stdbool.h>
#include <stddef.h>

#define NORMALIZER_STEPS_MAX 16

struct field;

enum normalizer_kind { NORMALIZER_NFC, NORMALIZER_PREPEND, NORMALIZER_REPLACE };

struct normalizer_step {
    enum normalizer_kind kind;
    struct replacement replacement; /* of PREPEND only the content */
};

struct normalizer {
    struct normalizer_step steps[NORMALIZER_STEPS_MAX];
    unsigned n_steps;
};

/* Reads normalizer. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. On failure nothing is
 * kept. */
MUST_CHECK enum status normalizer_init(struct normalizer *normalizer, const struct field *field,
                                       struct error *error);
void normalizer_finish(struct normalizer *normalizer); /* a zeroed one is fine */

/* Whether it puts something in front of a text. */
bool normalizer_prepends(const struct normalizer *normalizer);

/* text is valid UTF-8. Without steps bytes stay NULL: the text is normal as it is. Fails as
 * replacement_apply; then nothing is kept. */
MUST_CHECK enum status normalizer_run(const struct normalizer *normalizer,
                                      struct split_matcher *matcher, const char *text,
                                      size_t n_bytes, struct error *error,
                                      struct rewritten *normal_out);
