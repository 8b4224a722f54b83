/*
 * reply_constraint - what the text of a reply must be, as a request says it. What it means is text/constraint's business.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define REPLY_CHOICES_MAX 1024u

/* UNSET: there is a constraint, but it says nothing; a fault. */
enum reply_constraint_kind {
    REPLY_FREE,
    REPLY_UNSET,
    REPLY_JSON_SCHEMA,
    REPLY_JSON_OBJECT,
    REPLY_REGEX,
    REPLY_GRAMMAR,
    REPLY_CHOICES
};

/* The texts are borrowed, but for those of a copy (token_rules_copy). */
struct reply_constraint {
    enum reply_constraint_kind kind;
    uint32_t n_texts; /* the choices; 1 of a schema, a regex, a grammar; else 0 */
    const char *const *texts;
};

/* "constraint.json_schema" of the public API; "constraint" where there is no kind. A literal. */
const char *reply_constraint_field(const struct reply_constraint *constraint);
/* Of its texts, without their ends. */
size_t reply_constraint_bytes(const struct reply_constraint *constraint);
