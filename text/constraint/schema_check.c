#include "text/constraint/schema_check.h"

#include "base/json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PLACE_MAX 160

/* A way from the root. */
struct place {
    const struct place *outer; /* NULL: the root */
    const char *key;           /* NULL: index */
    size_t index;
};

struct walk {
    struct error *error;
    uint32_t n_multiple_of;
    uint64_t n_optional;
    bool is_data; /* what keywords such as const hold: no schema */
};

static size_t write_place(const struct place *place, char out[PLACE_MAX])
{
    size_t n = 1;
    if (!place->outer)
        return (size_t)snprintf(out, PLACE_MAX, "$");
    n = write_place(place->outer, out);
    if (n >= PLACE_MAX)
        return n;
    if (place->key)
        return n + (size_t)snprintf(out + n, PLACE_MAX - n, ".%s", place->key);
    return n + (size_t)snprintf(out + n, PLACE_MAX - n, "[%zu]", place->index);
}

static enum status refuse(struct walk *walk, const struct place *place, const char *what)
{
    char where[PLACE_MAX];
    write_place(place, where);
    return error_set(walk->error, STATUS_INVALID_ARGUMENT, "%s: %s", where, what);
}

static bool is_required(const json_t *required, const char *name)
{
    size_t i;
    json_t *value;
    json_array_foreach(required, i, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), name) == 0)
            return true;
    }
    return false;
}

/* At most SCHEMA_OPTIONAL_MAX names are looked up in required, each of which may be as long as the schema. */
static enum status count_optional(struct walk *walk, const struct place *place,
                                  const json_t *schema, json_t *properties)
{
    const json_t *required = json_object_get(schema, "required");
    const char *name;
    json_t *value;
    if (json_object_size(properties) > json_array_size(required) + SCHEMA_OPTIONAL_MAX)
        return refuse(walk, place, "too many properties that are not required");
    json_object_foreach(properties, name, value)
    {
        walk->n_optional += !is_required(required, name);
    }
    if (walk->n_optional > SCHEMA_OPTIONAL_MAX)
        return refuse(walk, place,
                      "with these, too many properties of the schema are not required");
    return STATUS_OK;
}

static enum status check_member(struct walk *walk, const struct place *place, const json_t *schema,
                                json_t *value)
{
    if (strcmp(place->key, "multipleOf") == 0 && json_is_number(value) &&
        ++walk->n_multiple_of > SCHEMA_MULTIPLE_OF_MAX)
        return refuse(walk, place, "too many multipleOf in one schema");
    if (walk->is_data)
        return STATUS_OK;
    if (strcmp(place->key, "$ref") == 0 && json_is_string(value) &&
        json_string_value(value)[0] != '#')
        return refuse(walk, place, "only references into the schema itself (#...) are read");
    if (strcmp(place->key, "properties") == 0 && json_is_object(value))
        return count_optional(walk, place, schema, value);
    return STATUS_OK;
}

static bool holds_data(const char *key)
{
    static const char *const KEYS[] = {"const", "enum", "default", "examples"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (strcmp(key, KEYS[i]) == 0)
            return true;
    return false;
}

/* Recursion: SCHEMA_DEPTH_MAX at most. */
static enum status walk_value(struct walk *walk, const struct place *outer, json_t *node)
{
    struct place place = {.outer = outer};
    json_t *value;
    json_array_foreach(node, place.index, value)
    {
        TRY(walk_value(walk, &place, value));
    }
    json_object_foreach(node, place.key, value)
    {
        TRY(check_member(walk, &place, node, value));
        const bool was_data = walk->is_data;
        walk->is_data |= holds_data(place.key);
        TRY(walk_value(walk, &place, value));
        walk->is_data = was_data;
    }
    return STATUS_OK;
}

/* Without a parser, whose own depth is the stack's. */
static bool is_too_deep(const char *text, size_t n_bytes)
{
    size_t depth = 0;
    bool is_within = false;
    for (size_t i = 0; i < n_bytes; i++) {
        if (is_within && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            is_within = !is_within;
        else if (!is_within && (text[i] == '{' || text[i] == '['))
            depth++;
        else if (!is_within && depth && (text[i] == '}' || text[i] == ']'))
            depth--;
        if (depth > SCHEMA_DEPTH_MAX)
            return true;
    }
    return false;
}

enum status schema_check(const char *text, size_t n_bytes, struct error *error)
{
    json_t *schema = NULL;
    if (is_too_deep(text, n_bytes))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "objects and arrays lie more than %d deep in one another",
                         SCHEMA_DEPTH_MAX);
    enum status status = json_text_parse(text, n_bytes, "the schema", JSON_ALLOW_NUL, &schema,
                                         error);
    if (status == STATUS_OK) {
        struct walk walk = {.error = error};
        if (json_is_object(schema) || json_is_boolean(schema))
            status = walk_value(&walk, &(const struct place){0}, schema);
        else
            status = error_set(error, STATUS_INVALID_ARGUMENT,
                               "a schema is an object, true or false");
    }
    json_decref(schema);
    return status == STATUS_OK || status == STATUS_NO_MEMORY ? status : STATUS_INVALID_ARGUMENT;
}
