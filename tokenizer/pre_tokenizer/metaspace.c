#include "tokenizer/pre_tokenizer/metaspace.h"

#include "tokenizer/files/field.h"

#include <string.h>

/* Of old add_prefix_space stood alone; now it may only say the same. */
static enum status read_prepend_scheme(const struct field *metaspace, struct error *error,
                                       enum prepend_scheme *scheme_out)
{
    static const char *const names[] = {
        [PREPEND_NEVER] = "never",
        [PREPEND_ALWAYS] = "always",
        [PREPEND_FIRST] = "first",
    };
    struct field scheme = field_member(metaspace, "prepend_scheme");
    struct field prefix = field_member(metaspace, "add_prefix_space");
    bool add_prefix = true;
    const char *name;

    TRY(field_bool(&prefix, error, &add_prefix));
    *scheme_out = add_prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (field_is_absent(&scheme))
        return STATUS_OK;
    TRY(field_text(&scheme, error, &name, NULL));
    if (!add_prefix && strcmp(name, names[PREPEND_NEVER]) != 0)
        return error_set(error, STATUS_CORRUPT, "%s is %.60s, but add_prefix_space is false",
                         scheme.path, name);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *scheme_out = (enum prepend_scheme)i;
            return STATUS_OK;
        }
    }
    return field_refuse(&scheme, error, name);
}

enum status metaspace_read(const struct field *metaspace, struct error *error, char space_out[4],
                           size_t *n_space_out, enum prepend_scheme *scheme_out)
{
    struct field replacement = field_member(metaspace, "replacement");

    TRY(field_character(&replacement, error, space_out, n_space_out));
    return read_prepend_scheme(metaspace, error, scheme_out);
}
