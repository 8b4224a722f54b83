#include "text/constraint/schema_check.h"

#include "base/json_text.h"
#include "text/constraint/regex_weight.h"

#include <math.h>
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
    uint64_t n_values;
    uint64_t n_required;
    uint64_t multiple; /* of all multipleOf so far; 0: there was none */
    uint32_t n_digits; /* of multiple, behind the point */
    uint64_t n_optional;
    uint64_t n_patterns;
    uint64_t pattern_bytes;
    uint64_t pattern_weight;
    uint64_t constant_bytes; /* as JSON */
    uint64_t name_bytes;
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

static enum status check_texts(struct walk *walk, const struct place *place)
{
    if (walk->constant_bytes > SCHEMA_CONSTANT_BYTES_MAX)
        return refuse(walk, place, "with this, what const and enum hold is too long");
    if (walk->constant_bytes + walk->name_bytes > SCHEMA_TEXT_BYTES_MAX)
        return refuse(
            walk, place,
            "with this, what const and enum hold and the names of properties are too long");
    return STATUS_OK;
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
        walk->name_bytes += strlen(name);
    }
    TRY(check_texts(walk, place));
    if (walk->n_optional > SCHEMA_OPTIONAL_MAX)
        return refuse(walk, place,
                      "with these, too many properties of the schema are not required");
    return STATUS_OK;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Schemas that are put together make one multiple of their multipleOf, and an automaton of as many states. */
static enum status count_multiple(struct walk *walk, const struct place *place, const json_t *value)
{
    double multiple = json_number_value(value);
    uint32_t n_digits = 0;
    if (!(multiple > 0))
        return refuse(walk, place, "a multipleOf is above 0");
    while (multiple != floor(multiple) && multiple <= SCHEMA_MULTIPLE_MAX) {
        multiple *= 10;
        n_digits++;
    }
    for (; n_digits < walk->n_digits && multiple <= SCHEMA_MULTIPLE_MAX; n_digits++)
        multiple *= 10;
    for (; n_digits > walk->n_digits && walk->multiple <= SCHEMA_MULTIPLE_MAX; walk->n_digits++)
        walk->multiple *= 10;
    if (multiple <= SCHEMA_MULTIPLE_MAX && walk->multiple <= SCHEMA_MULTIPLE_MAX) {
        const uint64_t one = (uint64_t)multiple;
        walk->multiple = walk->multiple ? one / common_divisor(one, walk->multiple) * walk->multiple
                                        : one;
    }
    if (multiple > SCHEMA_MULTIPLE_MAX || walk->multiple > SCHEMA_MULTIPLE_MAX)
        return refuse(
            walk, place,
            "a multipleOf of too many digits, or several with too large a common multiple");
    return STATUS_OK;
}

static enum status count_pattern(struct walk *walk, const struct place *place, const char *pattern)
{
    const size_t n_bytes = strlen(pattern);
    walk->pattern_bytes += n_bytes;
    walk->pattern_weight += regex_weight(pattern, n_bytes);
    if (walk->pattern_weight > REGEX_WEIGHT_MAX)
        return refuse(walk, place,
                      "with this, too many parts of the schema's patterns may be empty");
    if (walk->pattern_bytes > SCHEMA_PATTERN_BYTES_MAX)
        return refuse(walk, place, "with this, the patterns of the schema are too long");
    return STATUS_OK;
}

static enum status count_pattern_properties(struct walk *walk, const struct place *place,
                                            json_t *patterns)
{
    const char *pattern;
    json_t *value;
    walk->n_patterns += json_object_size(patterns);
    if (walk->n_patterns > SCHEMA_PATTERNS_MAX)
        return refuse(walk, place, "too many patternProperties in one schema");
    json_object_foreach(patterns, pattern, value)
    {
        TRY(count_pattern(walk, place, pattern));
    }
    return STATUS_OK;
}

static size_t json_bytes(const json_t *value)
{
    return json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
}

static enum status count_constant(struct walk *walk, const struct place *place, const json_t *value)
{
    walk->constant_bytes += json_bytes(value);
    return check_texts(walk, place);
}

/* A reply has one of them. */
static enum status count_enum(struct walk *walk, const struct place *place, const json_t *values)
{
    size_t i, longest = 0;
    json_t *value;
    json_array_foreach(values, i, value)
    {
        const size_t n_bytes = json_bytes(value);
        longest = n_bytes > longest ? n_bytes : longest;
    }
    walk->constant_bytes += longest;
    return check_texts(walk, place);
}

/* What a reference may lead to is counted wherever it stands; a property of that name has a value of another type. */
static enum status check_member(struct walk *walk, const struct place *place, const json_t *schema,
                                json_t *value)
{
    const char *key = place->key;
    if (strcmp(key, "multipleOf") == 0 && json_is_number(value))
        return count_multiple(walk, place, value);
    if (strcmp(key, "const") == 0 && !walk->is_data)
        return count_constant(walk, place, value);
    if (strcmp(key, "enum") == 0 && json_is_array(value) && !walk->is_data)
        return count_enum(walk, place, value);
    if (strcmp(key, "pattern") == 0 && json_is_string(value))
        return count_pattern(walk, place, json_string_value(value));
    if (strcmp(key, "patternProperties") == 0 && json_is_object(value))
        return count_pattern_properties(walk, place, value);
    if (strcmp(key, "properties") == 0 && json_is_object(value))
        return count_optional(walk, place, schema, value);
    if (strcmp(key, "required") == 0 && json_is_array(value) &&
        (walk->n_required += json_array_size(value)) > SCHEMA_REQUIRED_MAX)
        return refuse(walk, place, "with these, too many properties of the schema are required");
    if (strcmp(key, "$ref") == 0 && json_is_string(value) && !walk->is_data &&
        json_string_value(value)[0] != '#')
        return refuse(walk, place, "only references into the schema itself (#...) are read");
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
static enum status walk_value(struct walk *walk, const struct place *at, json_t *node)
{
    struct place place = {.outer = at};
    json_t *value;
    if (json_string_length(node) > SCHEMA_STRING_BYTES_MAX)
        return refuse(walk, at, "too long a string");
    if ((json_is_object(node) || json_is_array(node)) && ++walk->n_values > SCHEMA_VALUES_MAX)
        return refuse(walk, at, "with this, too many objects and arrays");
    json_array_foreach(node, place.index, value)
    {
        TRY(walk_value(walk, &place, value));
    }
    json_object_foreach(node, place.key, value)
    {
        if (strlen(place.key) > SCHEMA_STRING_BYTES_MAX)
            return refuse(walk, at, "too long a name");
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
    enum status status = json_text_parse(text, n_bytes, "the schema",
                                         JSON_ALLOW_NUL | JSON_DECODE_ANY, &schema, error);
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
