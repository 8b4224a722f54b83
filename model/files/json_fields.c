#include "model/files/json_fields.h"

#include "base/json_text.h"

#include <math.h>

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return json_text_is_constant(json_string_value(value)) ? "NaN or Infinity" : "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

static enum status wrong_type(const struct json_fields *fields, const char *key,
                              const json_t *value, const char *wanted)
{
    return error_set(fields->error, STATUS_CORRUPT, "%s: %s is %s, expected %s", fields->file, key,
                     type_name(value), wanted);
}

enum status json_fields_parse(const char *text, size_t bytes, const char *file, json_t **root_out,
                              struct error *error)
{
    json_t *root;
    TRY(json_text_parse(text, bytes, file, 0, &root, error));
    if (!json_is_object(root)) {
        enum status status = error_set(error, STATUS_CORRUPT, "%s: is %s, expected an object", file,
                                       type_name(root));
        json_decref(root);
        return status;
    }
    *root_out = root;
    return STATUS_OK;
}

const json_t *json_fields_get(const struct json_fields *fields, const char *key)
{
    const json_t *value = json_object_get(fields->object, key);
    return value && !json_is_null(value) ? value : NULL;
}

enum status json_fields_require(const struct json_fields *fields, const char *key)
{
    if (json_fields_get(fields, key))
        return STATUS_OK;
    return error_set(fields->error, STATUS_CORRUPT, "%s: %s is missing", fields->file, key);
}

bool json_fields_whole(const json_t *value, uint32_t max, uint32_t *number_out)
{
    const double number = json_is_number(value) ? json_number_value(value) : -1;
    if (number < 0 || number > max || number != floor(number))
        return false;
    *number_out = (uint32_t)number;
    return true;
}

enum status json_fields_u32(const struct json_fields *fields, const char *key, uint32_t min,
                            uint32_t max, uint32_t *value_out)
{
    const json_t *value = json_fields_get(fields, key);
    if (!value)
        return STATUS_OK;
    if (!json_is_number(value))
        return wrong_type(fields, key, value, "an integer");
    double number = json_number_value(value);
    if (number != floor(number))
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is %g, expected an integer",
                         fields->file, key, number);
    if (number < min || number > max)
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is %.15g, expected %u .. %u",
                         fields->file, key, number, min, max);
    *value_out = (uint32_t)number;
    return STATUS_OK;
}

enum status json_fields_real(const struct json_fields *fields, const char *key, double min,
                             double max, double *value_out)
{
    const json_t *value = json_fields_get(fields, key);
    if (!value)
        return STATUS_OK;
    if (!json_is_number(value))
        return wrong_type(fields, key, value, "a number");
    double number = json_number_value(value);
    if (!(number >= min && number <= max))
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is %g, expected %g .. %g",
                         fields->file, key, number, min, max);
    *value_out = number;
    return STATUS_OK;
}

enum status json_fields_bool(const struct json_fields *fields, const char *key, bool *value_out)
{
    const json_t *value = json_fields_get(fields, key);
    if (!value)
        return STATUS_OK;
    if (!json_is_boolean(value))
        return wrong_type(fields, key, value, "true or false");
    *value_out = json_is_true(value);
    return STATUS_OK;
}

enum status json_fields_only(const struct json_fields *fields, const char *key, bool expected)
{
    bool value = expected;
    TRY(json_fields_bool(fields, key, &value));
    if (value == expected)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED, "%s: %s is %s, only %s is supported",
                     fields->file, key, value ? "true" : "false", expected ? "true" : "false");
}

enum status json_fields_string(const struct json_fields *fields, const char *key,
                               const char **value_out)
{
    const json_t *value = json_fields_get(fields, key);
    if (!value)
        return STATUS_OK;
    if (!json_is_string(value))
        return wrong_type(fields, key, value, "a string");
    *value_out = json_string_value(value);
    return STATUS_OK;
}

enum status json_fields_object(const struct json_fields *fields, const char *key,
                               const json_t **value_out)
{
    const json_t *value = json_fields_get(fields, key);
    if (value && !json_is_object(value))
        return wrong_type(fields, key, value, "an object");
    *value_out = value;
    return STATUS_OK;
}
