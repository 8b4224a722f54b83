#include "sampling_params/reply_constraint.h"

#include <assert.h>
#include <string.h>

const char *reply_constraint_field(const struct reply_constraint *constraint)
{
    static const char *const FIELDS[] = {
        [REPLY_FREE] = "constraint",
        [REPLY_UNSET] = "constraint",
        [REPLY_JSON_SCHEMA] = "constraint.json_schema",
        [REPLY_JSON_OBJECT] = "constraint.json_object",
        [REPLY_REGEX] = "constraint.regex",
        [REPLY_GRAMMAR] = "constraint.grammar",
        [REPLY_CHOICES] = "constraint.choices",
    };
    assert(constraint->kind <= REPLY_CHOICES);
    return FIELDS[constraint->kind];
}

size_t reply_constraint_bytes(const struct reply_constraint *constraint)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < constraint->n_texts; i++)
        bytes += strlen(constraint->texts[i]);
    return bytes;
}
