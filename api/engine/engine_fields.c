#include "api/engine/engine_fields.h"

#include <stdio.h>
#include <string.h>

struct index {
    const char *digits;
    int n; /* of them */
};

/* Bytes of text that are the name; 0: it begins with another. */
static size_t match(const char *name, const char *text, struct index *index_out)
{
    const char *at = text;
    *index_out = (struct index){.digits = ""};
    for (; *name; name++) {
        if (*name != '#') {
            if (*at++ != *name)
                return 0;
            continue;
        }
        *index_out = (struct index){at, (int)strspn(at, "0123456789")};
        at += index_out->n;
    }
    return *at == '\0' || strchr(".[: ", *at) ? (size_t)(at - text) : 0;
}

static void rename_start(const struct engine_field *fields, char *text, size_t room)
{
    char renamed[sizeof((struct rpc_error *)NULL)->message + 128];
    struct index index;
    size_t n = 0;
    while (fields->inner && (n = match(fields->inner, text, &index)) == 0)
        fields++;
    if (!fields->inner)
        return;
    const int before = (int)strcspn(fields->own, "#");
    const char *after = fields->own[before] ? fields->own + before + 1 : "";
    snprintf(renamed, sizeof renamed, "%.*s%.*s%s%s", before, fields->own, index.n, index.digits,
             after, text + n);
    rpc_error_copy_text(text, room, renamed);
}

void engine_fields_rename(const struct engine_field *fields, struct rpc_error *error)
{
    rename_start(fields, error->message, sizeof error->message);
    rename_start(fields, error->field, sizeof error->field);
}
