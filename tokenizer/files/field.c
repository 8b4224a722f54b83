/*
 * Paths are built when a field is looked up, not when something is wrong: a field lives on the
 * stack of its reader and needs no parent that outlives it. The one hot loop, model.vocab, does
 * without fields.
 */
#include "tokenizer/files/field.h"

#include "base/utf8.h"
#include "tokenizer/tokens.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A path is "file: member.member[0]". */
static const char *separator(const struct field *parent)
{
    return strchr(parent->path, ':') ? "." : ": ";
}

/* A path that does not fit is cut: it is for reading only. */
static void path_join(struct field *child, const char *parent, const char *between, const char *key)
{
    assert(parent && key);
    size_t room = sizeof child->path;
    size_t used = strnlen(parent, room - 1);

    memcpy(child->path, parent, used);
    int written = snprintf(child->path + used, room - used, "%s%s", between, key);
    (void)written;
}

struct field field_root(const char *file, const json_t *root)
{
    struct field field = {.value = root};
    path_join(&field, file, "", "");
    return field;
}

struct field field_member(const struct field *object, const char *key)
{
    struct field field = {.value = json_object_get(object->value, key)};
    path_join(&field, object->path, separator(object), key);
    return field;
}

struct field field_element(const struct field *array, size_t index)
{
    char number[32];
    struct field field = {.value = json_array_get(array->value, index)};
    snprintf(number, sizeof number, "[%zu]", index);
    path_join(&field, array->path, "", number);
    return field;
}

bool field_is_absent(const struct field *field)
{
    return !field->value || json_is_null(field->value);
}

bool field_is_blank(const struct field *field)
{
    return field_is_absent(field) ||
           (json_is_string(field->value) && json_string_length(field->value) == 0);
}

size_t field_length(const struct field *array)
{
    return json_array_size(array->value);
}

static enum status wrong(const struct field *field, struct error *error, const char *wanted)
{
    return error_set(error, STATUS_CORRUPT, "%s is %s%s", field->path,
                     field->value ? "not " : "missing, it must be ", wanted);
}

enum status field_need_object(const struct field *field, struct error *error)
{
    return json_is_object(field->value) ? STATUS_OK : wrong(field, error, "an object");
}

enum status field_need_array(const struct field *field, struct error *error)
{
    return json_is_array(field->value) ? STATUS_OK : wrong(field, error, "an array");
}

enum status field_text(const struct field *field, struct error *error, const char **text_out,
                       size_t *n_bytes_out)
{
    if (!json_is_string(field->value))
        return wrong(field, error, "a string");
    *text_out = json_string_value(field->value);
    if (n_bytes_out)
        *n_bytes_out = json_string_length(field->value);
    return STATUS_OK;
}

enum status field_bool(const struct field *field, struct error *error, bool *value_inout)
{
    if (field_is_absent(field))
        return STATUS_OK;
    if (!json_is_boolean(field->value))
        return wrong(field, error, "true or false");
    *value_inout = json_is_true(field->value);
    return STATUS_OK;
}

enum status field_character(const struct field *field, struct error *error, char bytes_out[4],
                            size_t *n_bytes_out)
{
    uint32_t codepoint;
    const char *text;
    size_t n_bytes;

    TRY(field_text(field, error, &text, &n_bytes));
    if (n_bytes == 0 || utf8_read(text, &codepoint) != n_bytes)
        return error_set(error, STATUS_CORRUPT, "%s is \"%.60s\", it must be one character",
                         field->path, text);
    memcpy(bytes_out, text, n_bytes);
    *n_bytes_out = n_bytes;
    return STATUS_OK;
}

enum status field_id(const struct field *field, struct error *error, uint32_t *id_out)
{
    if (!json_is_integer(field->value))
        return wrong(field, error, "a whole number");
    json_int_t id = json_integer_value(field->value);
    if (id < 0 || id >= TOKENIZER_IDS_MAX)
        return error_set(error, STATUS_CORRUPT, "%s is %lld, it must be 0 to %u", field->path,
                         (long long)id, TOKENIZER_IDS_MAX - 1);
    *id_out = (uint32_t)id;
    return STATUS_OK;
}

enum status field_type(const struct field *object, struct error *error, const char **type_out)
{
    TRY(field_need_object(object, error));
    struct field type = field_member(object, "type");
    return field_text(&type, error, type_out, NULL);
}

struct step_reading {
    const char *key;
    field_reader *read;
    void *arg;
    struct error *error;
};

static enum status read_nested(const struct step_reading *reading, const struct field *object,
                               unsigned depth)
{
    const char *type = "";

    TRY(field_type(object, reading->error, &type));
    if (depth == FIELD_NESTING_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED, "%s is nested too deep", object->path);
    if (strcmp(type, "Sequence") != 0)
        return reading->read(reading->arg, object, type, reading->error);
    struct field members = field_member(object, reading->key);
    TRY(field_need_array(&members, reading->error));
    for (size_t i = 0; i < field_length(&members); i++) {
        struct field member = field_element(&members, i);
        TRY(read_nested(reading, &member, depth + 1));
    }
    return STATUS_OK;
}

enum status field_read_steps(const struct field *object, const char *key, field_reader *read,
                             void *arg, struct error *error)
{
    const struct step_reading reading = {key, read, arg, error};
    return read_nested(&reading, object, 0);
}

enum status field_refuse(const struct field *field, struct error *error, const char *value)
{
    return error_set(error, STATUS_UNSUPPORTED, "%s is %.60s, which is not supported", field->path,
                     value);
}
