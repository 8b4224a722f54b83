/*
 * template - the post_processor: the special tokens put before and after a text.
 *
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TEMPLATE_IDS_MAX 16 /* on each side */

struct field;

struct template_side {
    uint32_t ids[TEMPLATE_IDS_MAX];
    uint32_t n_ids;
};

struct template
{
    struct template_side before; /* in the order in which they come in the text */
    struct template_side after;
};

/* Reads post_processor; ids must be below n_ids. CORRUPT, UNSUPPORTED: error names the field. */
MUST_CHECK enum status template_init(struct template *template, const struct field *post_processor,
                                     uint32_t n_ids, struct error *error);

bool template_has(const struct template_side *side, uint32_t id);
