/*
 * tool_schema - the JSON Schema that a reply has to fit which calls tools.
 *
 *     one tool     what its parameters are; none: an empty object
 *     any of them  [{"name": "NAME", "parameters": {...}}, ...], at least one
 *
 * A reference inside of parameters ("#/$defs/x") is made one into the whole schema.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/json_fields.h"

#define TOOL_NAME_BYTES_MAX 64u

/* Not empty, and each has a function with a name of 1 .. TOOL_NAME_BYTES_MAX bytes that no other has, and parameters that are an
 * object, or none. False: the error is set. */
bool tool_schema_check(const struct json_fields *fields, const json_t *tools);

/* Of tools that were checked. A new object. NULL: no memory, or no tool has that name. */
json_t *tool_schema_of(const json_t *tools, const char *name);
json_t *tool_schema_of_all(const json_t *tools, bool allows_several);
