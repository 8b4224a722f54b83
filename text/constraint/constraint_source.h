/*
 * constraint_source - a constraint's text as the library reads it.
 *
 *     kind     the library's word for it       text    NUL-terminated
 *
 * Choices become a regex, GBNF becomes Lark. JSON has few blanks between its parts (CONSTRAINT_BLANKS): a model that repeats them,
 * where they may be, comes to an end.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "text/constraint/constraint.h"

/* A regex, as it stands in JSON. */
#define CONSTRAINT_BLANKS "[ \\\\t]{1,2}|(\\\\r?\\\\n){1,2}[ \\\\t]{0,40}"

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
