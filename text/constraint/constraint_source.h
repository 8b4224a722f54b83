/*
 * constraint_source - a constraint's text as the library reads it.
 *
 *     kind     the library's word for it       text    NUL-terminated
 *
 * Choices become a regex, GBNF becomes Lark.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "text/constraint/constraint.h"

struct constraint_source {
    enum constraint_kind key_kind; /* equal kind and text: equal constraints */
    const char *kind;
    char *text;
    bool is_converted; /* lines and names in errors of the library are not the caller's */
};

/* text has passed constraint_check. INVALID_ARGUMENT: what is wrong in GBNF. NO_MEMORY. On failure nothing is kept. */
MUST_CHECK enum status constraint_source_init(struct constraint_source *source,
                                              const struct constraint_text *text,
                                              struct error *error);
void constraint_source_finish(struct constraint_source *source);
