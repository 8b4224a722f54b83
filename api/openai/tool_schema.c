#include "api/openai/tool_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX                                                                                  \
    512 /* deeper, references stay as they are, and the schema is refused for its depth */

static const json_t *function_of(const json_t *tool)
{
    return json_object_get(tool, "function");
}

static const char *name_of(const json_t *tool)
{
    return json_string_value(json_object_get(function_of(tool), "name"));
}

static bool check_tool(const struct json_fields *fields, const json_t *tools, size_t i)
{
    const json_t *tool = json_array_get(tools, i);
    const json_t *name = json_object_get(function_of(tool), "name");
    const json_t *parameters = json_object_get(function_of(tool), "parameters");
    if (!json_is_text(name) || json_string_length(name) == 0 ||
        json_string_length(name) > TOOL_NAME_BYTES_MAX)
        return json_field_fail(fields, "invalid_value", "tools",
                               "[%zu] has no function.name of 1 to %u bytes", i,
                               TOOL_NAME_BYTES_MAX);
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        return json_field_fail(fields, "invalid_type", "tools",
                               "[%zu].function.parameters is no object", i);
    for (size_t k = 0; k < i; k++)
        if (strcmp(name_of(json_array_get(tools, k)), json_string_value(name)) == 0)
            return json_field_fail(fields, "invalid_value", "tools",
                                   "[%zu] has the name of another, \"%.64s\"", i,
                                   json_string_value(name));
    return true;
}

bool tool_schema_check(const struct json_fields *fields, const json_t *tools)
{
    const size_t n = json_array_size(tools);
    if (!json_is_array(tools) || n == 0)
        return json_field_fail(fields, "invalid_value", "tools",
                               "must be an array of one tool or more, for this tool_choice");
    for (size_t i = 0; i < n; i++)
        if (!check_tool(fields, tools, i))
            return false;
    return true;
}

/* ---- references ---- */

static bool is_one_of(const char *key, const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, names[i]) == 0)
            return true;
    return false;
}

/* These hold data, not schemas. */
static bool is_data(const char *key)
{
    static const char *const NAMES[] = {"enum", "const", "default", "examples"};
    return is_one_of(key, NAMES, sizeof NAMES / sizeof *NAMES);
}

/* These hold schemas by names of the schema's own. */
static bool is_map(const char *key)
{
    static const char *const NAMES[] = {"properties", "patternProperties", "$defs", "definitions",
                                        "dependentSchemas"};
    return is_one_of(key, NAMES, sizeof NAMES / sizeof *NAMES);
}

/* at: where the schema will be, as a JSON pointer. */
static bool move_reference(json_t *schema, const char *at)
{
    const char *to = json_string_value(json_object_get(schema, "$ref"));
    if (!to || to[0] != '#')
        return true;
    const size_t bytes = strlen(at) + strlen(to) + 1;
    char *moved = malloc(bytes);
    if (!moved)
        return false;
    snprintf(moved, bytes, "#%s%s", at, to + 1);
    const bool is_set = json_object_set_new(schema, "$ref", json_string(moved)) == 0;
    free(moved);
    return is_set;
}

/* is_names: its keys are names, not words of JSON Schema. NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX */
static bool move_references(json_t *schema, const char *at, bool is_names, int depth)
{
    json_t *value;
    const char *key;
    size_t i;
    bool is_moved = true;
    if (depth == DEPTH_MAX)
        return true;
    if (json_is_object(schema)) {
        is_moved = is_names || move_reference(schema, at);
        json_object_foreach(schema, key, value) if (is_moved && (is_names || !is_data(key)))
            is_moved = move_references(value, at, !is_names && is_map(key), depth + 1);
    } else if (json_is_array(schema)) {
        json_array_foreach(schema, i, value)
            is_moved = is_moved && move_references(value, at, false, depth + 1);
    }
    return is_moved;
}

/* ---- schemas ---- */

static json_t *parameters_of(const json_t *tool)
{
    const json_t *parameters = json_object_get(function_of(tool), "parameters");
    if (json_is_object(parameters))
        return json_deep_copy(parameters);
    return json_pack("{s:s, s:{}, s:b}", "type", "object", "properties", "additionalProperties", 0);
}

json_t *tool_schema_of(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (strcmp(name_of(json_array_get(tools, i)), name) == 0)
            return parameters_of(json_array_get(tools, i));
    return NULL;
}

/* {"name": ..., "parameters": ...} of tool i. */
static json_t *call_of(const json_t *tools, size_t i)
{
    const json_t *tool = json_array_get(tools, i);
    char at[64];
    json_t *parameters = parameters_of(tool);
    snprintf(at, sizeof at, "/items/anyOf/%zu/properties/parameters", i);
    if (!parameters || !move_references(parameters, at, false, 0)) {
        json_decref(parameters);
        return NULL;
    }
    return json_pack("{s:s, s:{s:{s:s, s:[s]}, s:o}, s:[s, s], s:b}", "type", "object",
                     "properties", "name", "type", "string", "enum", name_of(tool), "parameters",
                     parameters, "required", "name", "parameters", "additionalProperties", 0);
}

json_t *tool_schema_of_all(const json_t *tools, bool allows_several)
{
    json_t *calls = json_array();
    for (size_t i = 0; calls && i < json_array_size(tools); i++) {
        if (json_array_append_new(calls, call_of(tools, i)) != 0) {
            json_decref(calls);
            return NULL;
        }
    }
    json_t *schema = json_pack("{s:s, s:i, s:{s:o}}", "type", "array", "minItems", 1, "items",
                               "anyOf", calls);
    if (schema && !allows_several)
        json_object_set_new(schema, "maxItems", json_integer(1));
    return schema;
}
