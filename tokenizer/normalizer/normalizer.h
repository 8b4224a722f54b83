/*
 * normalizer - changes a text before it is split: a chain of at most NORMALIZER_STEPS_MAX steps.
 *
 * Each normalizer of tokenizer.json is one step, BertNormalizer up to five.
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/normalizer/character_map.h"
#include "tokenizer/normalizer/charsmap.h"
#include "tokenizer/normalizer/replacement.h"
#include "tokenizer/normalizer/unicode_form.h"

#include <stdbool.h>
#include <stddef.h>

#define NORMALIZER_STEPS_MAX 32

struct field;
struct normalizer_step;

/* Changes text as the step says. Fails as rewritten_append and split_pattern_next do. */
typedef enum status (*normalizer_apply)(const struct normalizer_step *step,
                                        struct split_matcher *matcher, struct rewritten *text_inout,
                                        struct error *error);

struct normalizer_step {
    normalizer_apply apply;
    enum unicode_form form;
    character_map map;
    struct ascii_map ascii;                        /* of map */
    bool strips_left, strips_right, strips_spaces; /* spaces alone, no other white space */
    struct replacement replacement;                /* of Prepend only the content */
    struct charsmap charsmap;
};

struct normalizer {
    struct normalizer_step steps[NORMALIZER_STEPS_MAX];
    unsigned n_steps;
    bool prepends; /* something is put in front of a text */
};

/* Reads normalizer. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. On failure nothing is
 * kept. */
MUST_CHECK enum status normalizer_init(struct normalizer *normalizer, const struct field *field,
                                       struct error *error);
void normalizer_finish(struct normalizer *normalizer); /* a zeroed one is fine */

/* text is valid UTF-8. Without steps bytes stay NULL: the text is normal as it is. Fails as
 * replacement_apply; then nothing is kept. */
MUST_CHECK enum status normalizer_run(const struct normalizer *normalizer,
                                      struct split_matcher *matcher, const char *text,
                                      size_t n_bytes, struct error *error,
                                      struct rewritten *normal_out);
