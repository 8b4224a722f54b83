#include "api/openai/json_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const json_t *json_field(const struct json_fields *fields, const char *name)
{
    const json_t *member = json_object_get(fields->object, name);
    return json_is_null(member) ? NULL : member;
}

static bool is_over(const struct json_fields *fields)
{
    return fields->error->code != 0;
}

bool json_field_fail(const struct json_fields *fields, const char *reason, const char *name,
                     const char *format, ...)
{
    char param[96], text[300];
    va_list arguments;
    if (is_over(fields))
        return false;
    snprintf(param, sizeof param, "%s%s", fields->path, name);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    openai_error_set(fields->error, 400, reason, param, "%s %s", param, text);
    return false;
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null";
    }
}

bool json_field_refuse_type(const struct json_fields *fields, const char *name, const char *wanted)
{
    const json_t *member = json_object_get(fields->object, name);
    return json_field_fail(fields, "invalid_type", name, "is %s; it must be %s",
                           member ? type_name(member) : "absent", wanted);
}

/* The sentence is logged, and a text may be a prompt: it is not shown. */
static void show(const json_t *value, char *out, size_t bytes)
{
    if (json_is_integer(value))
        snprintf(out, bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, bytes, "%g", json_real_value(value));
    else
        snprintf(out, bytes, "%s", type_name(value));
}

bool json_field_refuse_element(const struct json_fields *fields, const char *name, size_t index,
                               const char *wanted)
{
    char element[80], value[48];
    snprintf(element, sizeof element, "%s[%zu]", name, index);
    show(json_array_get(json_object_get(fields->object, name), index), value, sizeof value);
    return json_field_fail(fields, "invalid_value", element, "is %s; it must be %s", value, wanted);
}

const json_t *json_field_list(const struct json_fields *fields, const char *name, size_t n_max,
                              const char *elements)
{
    char wanted[64];
    const json_t *list = json_field(fields, name);
    snprintf(wanted, sizeof wanted, "an array of %s", elements);
    if (!list || is_over(fields))
        return NULL;
    if (!json_is_array(list)) {
        json_field_refuse_type(fields, name, wanted);
        return NULL;
    }
    if (json_array_size(list) <= n_max)
        return list;
    json_field_fail(fields, "invalid_value", name, "has %zu %s; at most %zu are taken",
                    json_array_size(list), elements, n_max);
    return NULL;
}

bool json_is_id(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= UINT32_MAX;
}

bool json_field_number(const struct json_fields *fields, const char *name, double min, double max,
                       bool *has_out, double *out)
{
    const json_t *member = json_field(fields, name);
    *has_out = false;
    if (!member || is_over(fields))
        return !is_over(fields);
    if (!json_is_number(member))
        return json_field_refuse_type(fields, name, "a number");
    double value = json_number_value(member);
    if (!(value >= min && value <= max))
        return json_field_fail(fields, "invalid_value", name, "is %g; it must be %g to %g", value,
                               min, max);
    *has_out = true;
    *out = value;
    return true;
}

bool json_field_integer(const struct json_fields *fields, const char *name, json_int_t min,
                        json_int_t max, bool *has_out, json_int_t *out)
{
    const json_t *member = json_field(fields, name);
    *has_out = false;
    if (!member || is_over(fields))
        return !is_over(fields);
    bool is_whole = json_is_real(member) &&
                    trunc(json_real_value(member)) == json_real_value(member) &&
                    fabs(json_real_value(member)) < 9e15;
    if (!json_is_integer(member) && !is_whole)
        return json_field_refuse_type(fields, name, "an integer");
    json_int_t value = is_whole ? (json_int_t)json_real_value(member) : json_integer_value(member);
    if (value < min || value > max)
        return json_field_fail(fields, "invalid_value", name,
                               "is %" JSON_INTEGER_FORMAT "; it must be %" JSON_INTEGER_FORMAT
                               " to %" JSON_INTEGER_FORMAT,
                               value, min, max);
    *has_out = true;
    *out = value;
    return true;
}

bool json_field_bool(const struct json_fields *fields, const char *name, bool *out)
{
    const json_t *member = json_field(fields, name);
    if (!member || is_over(fields))
        return !is_over(fields);
    if (!json_is_boolean(member))
        return json_field_refuse_type(fields, name, "true or false");
    *out = json_is_true(member);
    return true;
}

bool json_is_text(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

bool json_field_string(const struct json_fields *fields, const char *name, const char **out)
{
    const json_t *member = json_field(fields, name);
    *out = NULL;
    if (!member || is_over(fields))
        return !is_over(fields);
    if (!json_is_string(member))
        return json_field_refuse_type(fields, name, "a string");
    if (!json_is_text(member))
        return json_field_fail(fields, "invalid_value", name, "holds U+0000");
    *out = json_string_value(member);
    return true;
}
