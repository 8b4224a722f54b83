#include "api/openai/openai_constraint.h"

#include "base/status.h"
#include "sampling_params/reply_constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail_memory(const struct json_fields *fields)
{
    if (fields->error->code == 0)
        openai_error_set(fields->error, 500, NULL, NULL, "%s", status_text(STATUS_NO_MEMORY));
}

/* False: there is one already. member: as errors name it, and openai_request_rename. */
static bool begin(struct openai_constraint *constraint, const struct json_fields *fields,
                  const char *member)
{
    if (constraint->member && strcmp(constraint->member, member) == 0)
        return json_field_fail(fields, "invalid_value", member,
                               "has two members that say what the reply must be");
    if (constraint->member)
        return json_field_fail(fields, "invalid_value", member,
                               "and %s both say what the reply must be", constraint->member);
    constraint->member = member;
    return true;
}

/* ---- values ---- */

/* A schema as an object, or as text; true and false are schemas, too. */
static void set_schema(struct openai_constraint *constraint, const struct json_fields *fields,
                       const char *name, const json_t *value)
{
    if (json_is_text(value)) {
        constraint->message.json_schema = (char *)json_string_value(value);
    } else if (json_is_object(value) || json_is_boolean(value)) {
        constraint->text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        constraint->message.json_schema = constraint->text;
        if (!constraint->text)
            fail_memory(fields);
    } else {
        json_field_refuse_type(fields, name, "a JSON Schema: an object, or its text");
        return;
    }
    constraint->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA;
}

static void set_choices(struct openai_constraint *constraint, const struct json_fields *fields,
                        const char *name, const json_t *value)
{
    size_t n = json_array_size(value);
    if (!json_field_list(fields, name, REPLY_CHOICES_MAX, "texts") || n == 0) {
        json_field_fail(fields, "invalid_value", name, "has no texts; it must have one at least");
        return;
    }
    constraint->list = calloc(n, sizeof *constraint->list);
    if (!constraint->list) {
        fail_memory(fields);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!json_is_text(json_array_get(value, i))) {
            json_field_refuse_element(fields, name, i, "a text without U+0000");
            return;
        }
        constraint->list[i] = (char *)json_string_value(json_array_get(value, i));
    }
    constraint->choices.texts = constraint->list;
    constraint->choices.n_texts = n;
    constraint->message.choices = &constraint->choices;
    constraint->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_CHOICES;
}

static void set_object(struct openai_constraint *constraint)
{
    constraint->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT;
    constraint->message.json_object = true;
}

/* ---- vLLM's members ---- */

enum value_kind { IS_JSON, IS_OBJECT, IS_REGEX, IS_CHOICE, IS_GRAMMAR };

struct member {
    const char *name, *in_outputs; /* alone, and in structured_outputs */
    enum value_kind kind;
};

static const struct member MEMBERS[] = {{"guided_json", "json", IS_JSON},
                                        {"guided_json_object", "json_object", IS_OBJECT},
                                        {"guided_regex", "regex", IS_REGEX},
                                        {"guided_choice", "choice", IS_CHOICE},
                                        {"guided_grammar", "grammar", IS_GRAMMAR}};

#define N_MEMBERS (sizeof MEMBERS / sizeof *MEMBERS)

/* Members of structured_outputs that change nothing here. */
static const char *const HINTS[] = {"disable_fallback", "_backend", "_backend_was_auto"};

/* As if it were not there. */
static bool is_nothing(const json_t *value, enum value_kind kind)
{
    return !value || (kind == IS_OBJECT && json_is_false(value)) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static void set_value(struct openai_constraint *constraint, const struct json_fields *fields,
                      const char *name, enum value_kind kind)
{
    const json_t *value = json_field(fields, name);
    const char *text = NULL;
    bool is_object = false;
    switch (kind) {
    case IS_JSON:
        set_schema(constraint, fields, name, value);
        break;
    case IS_OBJECT:
        if (json_field_bool(fields, name, &is_object) && is_object)
            set_object(constraint);
        break;
    case IS_REGEX:
        constraint->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_REGEX;
        if (json_field_string(fields, name, &text))
            constraint->message.regex = (char *)text;
        break;
    case IS_GRAMMAR:
        constraint->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR;
        if (json_field_string(fields, name, &text))
            constraint->message.grammar = (char *)text;
        break;
    case IS_CHOICE:
        set_choices(constraint, fields, name, value);
        break;
    }
}

static void read_guided(struct openai_constraint *constraint, const struct json_fields *fields)
{
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (!is_nothing(json_field(fields, MEMBERS[i].name), MEMBERS[i].kind) &&
            begin(constraint, fields, MEMBERS[i].name))
            set_value(constraint, fields, MEMBERS[i].name, MEMBERS[i].kind);
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (strcmp(name, MEMBERS[i].in_outputs) == 0)
            return true;
    for (size_t i = 0; i < sizeof HINTS / sizeof *HINTS; i++)
        if (strcmp(name, HINTS[i]) == 0)
            return true;
    return false;
}

/* What is left out would be a reply of another kind than the client asked for. */
static void refuse_others(const struct json_fields *inner)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)inner->object, name, value)
    {
        if (is_known(name) || json_is_null(value) || json_is_false(value))
            continue;
        char shown[64];
        snprintf(shown, sizeof shown, "%s", name);
        json_field_fail(inner, "unsupported_parameter", shown, "is not served");
        return;
    }
}

static void read_outputs(struct openai_constraint *constraint, const struct json_fields *fields)
{
    const json_t *outputs = json_field(fields, "structured_outputs");
    const struct json_fields inner = {outputs, "structured_outputs.", fields->error};
    if (!outputs)
        return;
    if (!json_is_object(outputs)) {
        json_field_refuse_type(fields, "structured_outputs", "an object");
        return;
    }
    refuse_others(&inner);
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (!is_nothing(json_field(&inner, MEMBERS[i].in_outputs), MEMBERS[i].kind) &&
            begin(constraint, fields, "structured_outputs"))
            set_value(constraint, &inner, MEMBERS[i].in_outputs, MEMBERS[i].kind);
}

/* ---- OpenAI's ---- */

static void read_format(struct openai_constraint *constraint, const struct json_fields *fields)
{
    const json_t *format = json_field(fields, "response_format");
    const json_t *wrapped = json_object_get(format, "json_schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    const struct json_fields inner = {wrapped, "response_format.json_schema.", fields->error};
    if (!format || (type && strcmp(type, "text") == 0))
        return;
    if (!json_is_object(format)) {
        json_field_refuse_type(fields, "response_format", "an object");
        return;
    }
    if (!begin(constraint, fields, "response_format"))
        return;
    if (type && strcmp(type, "json_object") == 0)
        set_object(constraint);
    else if (!type || strcmp(type, "json_schema") != 0)
        json_field_fail(fields, "unsupported_parameter", "response_format",
                        "%s%.40s%s; \"text\", \"json_object\" and \"json_schema\" are served",
                        type ? "is of type \"" : "has no type", type ? type : "", type ? "\"" : "");
    else if (!json_is_object(wrapped) || !json_field(&inner, "schema"))
        json_field_fail(fields, "invalid_value", "response_format",
                        "has no json_schema with a schema");
    else
        set_schema(constraint, &inner, "schema", json_field(&inner, "schema"));
}

/* ---- tools ---- */

static bool allows_several(const struct json_fields *fields)
{
    bool several = true;
    json_field_bool(fields, "parallel_tool_calls", &several);
    return several;
}

static void take_tools(struct openai_constraint *constraint, const struct json_fields *fields,
                       const char *name)
{
    const json_t *tools = json_field(fields, "tools");
    if (!tool_schema_check(fields, tools) || !begin(constraint, fields, "tool_choice"))
        return;
    json_t *schema = name ? tool_schema_of(tools, name)
                          : tool_schema_of_all(tools, allows_several(fields));
    if (name && !schema) {
        json_field_fail(fields, "invalid_value", "tool_choice",
                        "is the function \"%.64s\", which is none of tools", name);
        return;
    }
    constraint->text = schema ? json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(schema);
    constraint->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA;
    constraint->message.json_schema = constraint->text;
    if (!constraint->text)
        fail_memory(fields);
    constraint->tools = name ? TOOL_NAMED : TOOL_REQUIRED;
    if (name)
        memcpy(constraint->tool_name, name, strlen(name) + 1);
}

static void read_tool_choice(struct openai_constraint *constraint, const struct json_fields *fields,
                             bool is_chat)
{
    const json_t *choice = json_field(fields, "tool_choice");
    const char *word = json_string_value(choice);
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    if (!choice || (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0)))
        return;
    if (!is_chat)
        json_field_fail(fields, "unsupported_parameter", "tool_choice", "is of chat alone");
    else if (word && strcmp(word, "required") == 0)
        take_tools(constraint, fields, NULL);
    else if (json_is_text(name) && json_string_length(name) <= TOOL_NAME_BYTES_MAX)
        take_tools(constraint, fields, json_string_value(name));
    else
        json_field_fail(fields, "unsupported_parameter", "tool_choice",
                        "must be \"auto\", \"none\", \"required\", or an object with a "
                        "function.name");
}

/* ---- the whole ---- */

void openai_constraint_read(const struct json_fields *fields, bool is_chat,
                            struct openai_constraint *constraint_out)
{
    *constraint_out = (struct openai_constraint){.member = NULL};
    kvferry__v1__constraint__init(&constraint_out->message);
    kvferry__v1__constraint_choices__init(&constraint_out->choices);
    read_format(constraint_out, fields);
    read_guided(constraint_out, fields);
    read_outputs(constraint_out, fields);
    read_tool_choice(constraint_out, fields, is_chat);
}

void openai_constraint_free(struct openai_constraint *constraint)
{
    free(constraint->text);
    free(constraint->list);
    constraint->text = NULL;
    constraint->list = NULL;
}
