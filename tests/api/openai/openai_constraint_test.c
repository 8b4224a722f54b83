/* openai_constraint, tool_schema: each member that says what a reply must be reaches the router's request, one of them at most; a call of
 * tools is a schema in which references still lead to what they meant. */
#include "api/openai/openai_request.h"
#include "tests/router/support/chat_limits_sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct openai_request request;
static struct openai_error error;

static void forget(void)
{
    openai_request_finish(&request);
}

TestSuite(openai_constraint, .fini = forget);

#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"
#define F        "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
#define G        "{\"type\": \"function\", \"function\": {\"name\": \"g\"}}"

static bool read_body(const char *members)
{
    char body[2000];
    openai_request_finish(&request);
    snprintf(body, sizeof body, "{" MESSAGES ", %s}", members);
    return openai_request_read(&request, true, &CHAT_LIMITS_SAMPLE, body, strlen(body), &error);
}

static const Kvferry__V1__Constraint *expect_kind(const char *members, int kind)
{
    cr_assert(read_body(members), "%s: %s", members, error.message);
    const Kvferry__V1__Constraint *constraint = request.sampling.constraint;
    cr_assert(constraint, "%s", members);
    cr_assert_eq((int)constraint->kind_case, kind, "%s", members);
    return constraint;
}

static void expect_schema(const char *members, const char *schema)
{
    const Kvferry__V1__Constraint *constraint = expect_kind(
        members, KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA);
    cr_expect_str_eq(constraint->json_schema, schema, "%s: %s", members, constraint->json_schema);
}

Test(openai_constraint, each_member_reaches_the_message)
{
    expect_schema(
        "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\","
        "\"strict\": true, \"schema\": {\"b\": 1, \"a\": [2]}}}",
        "{\"b\":1,\"a\":[2]}");
    expect_schema("\"guided_json\": {\"type\": \"null\"}", "{\"type\":\"null\"}");
    expect_schema("\"guided_json\": \" {} \"", " {} ");
    expect_schema("\"structured_outputs\": {\"json\": {\"x\": true}}", "{\"x\":true}");
    expect_kind("\"response_format\": {\"type\": \"json_object\"}",
                KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT);
    expect_kind("\"structured_outputs\": {\"json_object\": true, \"regex\": null}",
                KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT);
    cr_expect_str_eq(
        expect_kind("\"guided_regex\": \"a+\"", KVFERRY__V1__CONSTRAINT__KIND_REGEX)->regex, "a+");
    cr_expect_str_eq(expect_kind("\"structured_outputs\": {\"grammar\": \"start: A\"}",
                                 KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR)
                         ->grammar,
                     "start: A");
    const Kvferry__V1__Constraint *constraint = expect_kind("\"guided_choice\": [\"yes\", \"\"]",
                                                            KVFERRY__V1__CONSTRAINT__KIND_CHOICES);
    cr_assert_eq(constraint->choices->n_texts, 2);
    cr_expect_str_eq(constraint->choices->texts[0], "yes");
    cr_expect_str_eq(constraint->choices->texts[1], "");
    cr_assert(read_body("\"response_format\": {\"type\": \"text\"}, \"guided_json\": null,"
                        "\"structured_outputs\": {\"json_object\": false, \"regex\": null,"
                        "\"disable_any_whitespace\": false}"),
              "%s", error.message);
    cr_expect_null(request.sampling.constraint);
}

static void expect_refused(const char *members, const char *param, const char *says)
{
    cr_expect_not(read_body(members), "%s is taken", members);
    cr_expect_eq(error.code, 400);
    cr_expect_str_eq(error.param, param, "%s: %s", members, error.message);
    cr_expect_not_null(strstr(error.message, says), "%s: %s", members, error.message);
}

Test(openai_constraint, what_does_not_go_is_refused_by_name)
{
    expect_refused("\"guided_regex\": \"a\", \"response_format\": {\"type\": \"json_object\"}",
                   "guided_regex", "response_format both");
    expect_refused("\"structured_outputs\": {\"json\": {}, \"regex\": \"a\"}", "structured_outputs",
                   "two members");
    expect_refused("\"structured_outputs\": {\"structural_tag\": {\"a\": 1}}",
                   "structured_outputs.structural_tag", "not served");
    expect_refused("\"structured_outputs\": {\"regexp\": \"a\"}", "structured_outputs.regexp",
                   "not served");
    expect_refused("\"structured_outputs\": {\"regex\": \"a\", \"whitespace_pattern\": \" \"}",
                   "structured_outputs.whitespace_pattern", "not served");
    expect_refused("\"structured_outputs\": 3", "structured_outputs", "object");
    expect_refused("\"guided_choice\": []", "guided_choice", "has no texts");
    expect_refused("\"guided_choice\": [\"a\", 2]", "guided_choice[1]", "is 2;");
    expect_refused("\"structured_outputs\": {\"choice\": [\"a\\u0000\"]}",
                   "structured_outputs.choice[0]", "U+0000");
    expect_refused("\"response_format\": {\"type\": \"xml\"}", "response_format", "\"xml\"");
    expect_refused("\"response_format\": \"json\"", "response_format", "an object");
    expect_refused("\"structured_outputs\": {\"regex\": 5}", "structured_outputs.regex", "");
    expect_refused("\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {}}",
                   "response_format", "schema");
    expect_refused("\"tool_choice\": \"required\"", "tools", "one tool or more");
    expect_refused("\"tool_choice\": \"required\", \"tools\": [{}]", "tools", "function.name");
    expect_refused("\"tool_choice\": \"required\", \"tools\": [" G ", " G "]", "tools", "\"g\"");
    expect_refused("\"tool_choice\": \"required\", \"tools\": [" F "[]}}]", "tools", "parameters");
    expect_refused("\"tool_choice\": {\"function\": {\"name\": \"h\"}}, \"tools\": [" G "]",
                   "tool_choice", "\"h\"");
    expect_refused("\"tool_choice\": \"required\", \"guided_regex\": \"a\", \"tools\": [" G "]",
                   "tool_choice", "guided_regex both");
}

#define EMPTY "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}"
#define CALL_OF(name, parameters)                                                                  \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"enum\":[\"" name         \
    "\"]},\"parameters\":" parameters                                                              \
    "},\"required\":[\"name\",\"parameters\"],\"additionalProperties\":false}"
#define ALL_OF(calls) "{\"type\":\"array\",\"minItems\":1,\"items\":{\"anyOf\":[" calls "]}"

Test(openai_constraint, a_call_of_tools_is_a_schema)
{
    expect_schema("\"tool_choice\": \"required\", \"tools\": [" F "{\"type\": \"object\"}}}, " G
                  "]",
                  ALL_OF(CALL_OF("f", "{\"type\":\"object\"}") "," CALL_OF("g", EMPTY)) "}");
    cr_expect_eq(request.constraint.tools, TOOL_REQUIRED);
    expect_schema("\"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"tools\": [" G
                  "]",
                  ALL_OF(CALL_OF("g", EMPTY)) ",\"maxItems\":1}");
    expect_schema("\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}},"
                  "\"tools\": [" G ", " F "{\"$ref\": \"#/$defs/x\"}}}]",
                  "{\"$ref\":\"#/$defs/x\"}");
    cr_expect_eq(request.constraint.tools, TOOL_NAMED);
    cr_expect_str_eq(request.constraint.tool_name, "f");
    expect_schema("\"tool_choice\": \"required\", \"tools\": [" F
                  "{\"a\": [{\"$ref\": \"#/$defs/x\"}], \"enum\": [{\"$ref\": \"#\"}]}}}]",
                  ALL_OF(CALL_OF("f", "{\"a\":[{\"$ref\":\"#/items/anyOf/0/properties/parameters"
                                      "/$defs/x\"}],\"enum\":[{\"$ref\":\"#\"}]}")) "}");
    /* A property may have the name of a keyword. */
    expect_schema(
        "\"tool_choice\": \"required\", \"tools\": [" F
        "{\"properties\": {\"default\": {\"$ref\": \"#/$defs/x\"}, \"$ref\": {\"enum\": [1]}},"
        "\"default\": {\"$ref\": \"#/a\"}}}}]",
        ALL_OF(CALL_OF("f", "{\"properties\":{\"default\":{\"$ref\":\"#/items/anyOf/0/properties"
                            "/parameters/$defs/x\"},\"$ref\":{\"enum\":[1]}},"
                            "\"default\":{\"$ref\":\"#/a\"}}")) "}");
    cr_assert(read_body("\"tool_choice\": \"auto\", \"tools\": [" G "]"), "%s", error.message);
    cr_expect_null(request.sampling.constraint);
    cr_expect_eq(request.constraint.tools, TOOL_FREE);
}

Test(openai_constraint, a_fault_of_the_router_has_the_members_name)
{
    cr_assert(read_body("\"response_format\": {\"type\": \"json_schema\", \"json_schema\":"
                        "{\"schema\": {\"type\": 3}}}"));
    openai_error_set(&error, 400, NULL, "constraint.json_schema",
                     "constraint.json_schema: no type");
    openai_request_rename(&request, &error);
    cr_expect_str_eq(error.param, "response_format");
    cr_expect_str_eq(error.message, "response_format: no type");
}
