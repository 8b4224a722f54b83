/* chat_prompt: messages become the JSON that templates are given; what is no JSON, or beyond a bound, is refused by its field. */
#include "router/requests/chat_prompt.h"
#include "tests/router/support/chat_limits_sample.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    Kvferry__V1__ChatPrompt chat;
    Kvferry__V1__ChatMessage messages[3];
    Kvferry__V1__ChatMessage *list[3];
    Kvferry__V1__ChatToolCall call;
    Kvferry__V1__ChatToolCall *calls[1];
    char *tools[2];
    char *documents[2];
    Kvferry__V1__ChatPart parts[2];
    Kvferry__V1__ChatPart *part_list[2];
};

static void set_content(Kvferry__V1__ChatMessage *message, const char *text, size_t bytes)
{
    message->content_presence_case = KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT;
    message->content = (ProtobufCBinaryData){bytes, (uint8_t *)text};
}

/* A question of a user. */
static void init(struct sample *sample)
{
    memset(sample, 0, sizeof *sample);
    kvferry__v1__chat_prompt__init(&sample->chat);
    kvferry__v1__chat_tool_call__init(&sample->call);
    sample->calls[0] = &sample->call;
    for (int i = 0; i < 3; i++) {
        kvferry__v1__chat_message__init(&sample->messages[i]);
        sample->list[i] = &sample->messages[i];
    }
    for (int i = 0; i < 2; i++) {
        kvferry__v1__chat_part__init(&sample->parts[i]);
        sample->part_list[i] = &sample->parts[i];
    }
    sample->chat.messages = sample->list;
    sample->chat.documents = sample->documents;
    sample->chat.n_messages = 1;
    sample->chat.tools = sample->tools;
    sample->messages[0].role = (char *)"user";
    set_content(&sample->messages[0], "Hi", 2);
}

static void expect_json(const struct sample *sample, const char *wanted)
{
    struct rpc_error error = {0};
    char *json;
    size_t bytes;
    cr_assert_eq(chat_prompt_json(&sample->chat, &CHAT_LIMITS_SAMPLE, &json, &bytes, &error),
                 STATUS_OK, "%s", error.message);
    cr_assert_eq(bytes, strlen(json));
    json_t *is = json_loads(json, JSON_ALLOW_NUL, NULL);
    json_t *should = json_loads(wanted, JSON_ALLOW_NUL, NULL);
    cr_assert(should);
    cr_assert(json_equal(is, should), "%s", json);
    json_decref(is);
    json_decref(should);
    free(json);
}

static void expect_refused(const struct sample *sample, const char *field, const char *value,
                           const char *sentence)
{
    struct rpc_error error = {0};
    char *json;
    size_t bytes;
    cr_assert_eq(chat_prompt_json(&sample->chat, &CHAT_LIMITS_SAMPLE, &json, &bytes, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_null(json);
    cr_assert_str_eq(error.field, field);
    cr_assert_str_eq(error.message, sentence);
    char cut[sizeof error.value];
    snprintf(cut, sizeof cut, "%s", value);
    cr_expect_str_eq(error.value, cut);
}

Test(chat_prompt, has_what_was_given_and_no_more)
{
    struct sample sample;
    init(&sample);
    expect_json(&sample, "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                         "\"add_generation_prompt\": true}");
    set_content(&sample.messages[0], "a\0b", 3);
    sample.messages[0].name = (char *)"Ann";
    sample.chat.continue_final_message = true;
    sample.chat.template_arguments = (char *)"{\"enable_thinking\": false}";
    expect_json(&sample,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000b\", \"name\": "
                "\"Ann\"}], \"add_generation_prompt\": false, \"continue_final_message\": "
                "true, \"chat_template_kwargs\": {\"enable_thinking\": false}}");
}

Test(chat_prompt, tools_and_their_calls_are_objects)
{
    struct sample sample;
    init(&sample);
    sample.tools[0] = (char *)"{\"type\": \"function\", \"function\": {\"name\": \"f\"}}";
    sample.chat.n_tools = 1;
    sample.chat.n_messages = 3;
    sample.messages[1].role = (char *)"assistant";
    sample.messages[1].tool_calls = sample.calls;
    sample.messages[1].n_tool_calls = 1;
    sample.call.id = (char *)"c1";
    sample.call.name = (char *)"f";
    sample.call.arguments = (char *)"{\"x\": 1}";
    sample.messages[2].role = (char *)"tool";
    sample.messages[2].tool_call_id = (char *)"c1";
    sample.messages[2].more = (char *)"{\"role\": \"never\", \"extra\": [1]}";
    set_content(&sample.messages[2], "2", 1);
    expect_json(
        &sample,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
        "\"assistant\", \"tool_calls\": [{\"type\": \"function\", \"id\": \"c1\", "
        "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1}}}]}, {\"role\": \"tool\", "
        "\"tool_call_id\": \"c1\", \"content\": \"2\", \"extra\": [1]}], \"tools\": "
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], "
        "\"add_generation_prompt\": true}");
    sample.call.arguments = (char *)"half {";
    struct rpc_error error = {0};
    char *json;
    size_t bytes;
    cr_assert_eq(chat_prompt_json(&sample.chat, &CHAT_LIMITS_SAMPLE, &json, &bytes, &error),
                 STATUS_OK);
    cr_assert(strstr(json, "\"arguments\":\"half {\""), "as the model wrote it: %s", json);
    free(json);
}

/* Two parts instead of a content. */
static void give_parts(struct sample *sample)
{
    init(sample);
    sample->messages[0]
        .content_presence_case = KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE__NOT_SET;
    sample->messages[0].parts = sample->part_list;
    sample->messages[0].n_parts = 2;
    sample->parts[0].text = (ProtobufCBinaryData){3, (uint8_t *)"a\0b"};
}

Test(chat_prompt, parts_are_blocks_of_text)
{
    struct sample sample;
    give_parts(&sample);
    expect_json(&sample, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
                         "\"text\": \"a\\u0000b\"}, {\"type\": \"text\", \"text\": \"\"}]}], "
                         "\"add_generation_prompt\": true}");
    set_content(&sample.messages[0], "Hi", 2);
    expect_refused(&sample, "chat.messages[0].parts", "",
                   "chat.messages[0].parts are there, and so is content: one of them can be");
    give_parts(&sample);
    sample.parts[1].text = (ProtobufCBinaryData){2, (uint8_t *)"a\xff"};
    expect_refused(&sample, "chat.messages[0].parts[1].text", "",
                   "chat.messages[0].parts[1].text is not UTF-8 at byte 1");
    init(&sample);
    set_content(&sample.messages[0], "\xc3", 1);
    expect_refused(&sample, "chat.messages[0].content", "",
                   "chat.messages[0].content is not UTF-8 at byte 0");
}

Test(chat_prompt, documents_are_objects)
{
    struct sample sample;
    init(&sample);
    sample.chat.n_documents = 2;
    sample.documents[0] = (char *)"{\"title\": \"T\", \"text\": \"x\"}";
    sample.documents[1] = (char *)"{}";
    expect_json(&sample,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"documents\": "
                "[{\"title\": \"T\", \"text\": \"x\"}, {}], \"add_generation_prompt\": true}");
    sample.documents[1] = (char *)"[]";
    expect_refused(&sample, "chat.documents[1]", "[]",
                   "chat.documents[1] is JSON, but not an object");
}

Test(chat_prompt, each_bound_is_a_row_that_the_error_names)
{
    static const struct {
        struct chat_limits limits;
        const char *field, *value, *row;
    } CASES[] = {
        {{.messages_max = 0}, "chat.messages", "1", "chat_messages_max"},
        {{.messages_max = 1, .parts_max = 1}, "chat.messages[0].parts", "2", "chat_parts_max"},
        {{.messages_max = 1, .parts_max = 2}, "chat.messages[0].tool_calls", "1", "chat_calls_max"},
        {{.messages_max = 1, .parts_max = 2, .calls_max = 1}, "chat.tools", "2", "chat_tools_max"},
        {{.messages_max = 1, .parts_max = 2, .calls_max = 1, .tools_max = 2, .tool_bytes_max = 8},
         "chat.tools",
         "9",
         "chat_tool_bytes_max"},
        {{.messages_max = 1, .parts_max = 2, .calls_max = 1, .tools_max = 2, .tool_bytes_max = 9},
         "chat.documents",
         "1",
         "chat_documents_max"},
        {{.messages_max = 1,
          .parts_max = 2,
          .calls_max = 1,
          .tools_max = 2,
          .tool_bytes_max = 9,
          .documents_max = 1,
          .argument_bytes_max = 1},
         "chat.template_arguments",
         "2",
         "chat_argument_bytes_max"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct sample sample;
        struct rpc_error error = {0};
        char *json;
        size_t bytes;
        give_parts(&sample);
        sample.messages[0].tool_calls = sample.calls;
        sample.messages[0].n_tool_calls = 1;
        sample.call.name = (char *)"f";
        sample.tools[0] = (char *)"{}";
        sample.tools[1] = (char *)"{\"a\":1}";
        sample.chat.n_tools = 2;
        sample.documents[0] = (char *)"{}";
        sample.chat.n_documents = 1;
        sample.chat.template_arguments = (char *)"{}";
        cr_assert_eq(chat_prompt_json(&sample.chat, &CASES[i].limits, &json, &bytes, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(error.field, CASES[i].field);
        cr_expect_str_eq(error.value, CASES[i].value);
        cr_expect(strstr(error.message, CASES[i].row), "%s", error.message);
    }
}

/* {"a": {"a": ... 1}}: n objects. */
static char *nested(char *text, size_t n)
{
    char *at = text;
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, "{\"a\":");
    at = stpcpy(at, "1");
    memset(at, '}', n);
    at[n] = '\0';
    return text;
}

Test(chat_prompt, what_is_nested_too_deep_is_refused_by_its_field)
{
    static char deep[1024], deeper[1024];
    struct sample sample;
    init(&sample);
    sample.chat.n_tools = 1;
    sample.tools[0] = nested(deep, CHAT_DEPTH_MAX);
    sample.chat.template_arguments = deep;
    sample.messages[0].more = deep;
    sample.messages[0].tool_calls = sample.calls;
    sample.messages[0].n_tool_calls = 1;
    sample.call.name = (char *)"f";
    sample.call.arguments = deep;
    struct rpc_error error = {0};
    char *json;
    size_t bytes;
    cr_assert_eq(chat_prompt_json(&sample.chat, &CHAT_LIMITS_SAMPLE, &json, &bytes, &error),
                 STATUS_OK, "%s", error.message);
    free(json);
    sample.chat.template_arguments = nested(deeper, CHAT_DEPTH_MAX + 1);
    expect_refused(&sample, "chat.template_arguments", deeper,
                   "chat.template_arguments is nested deeper than 100");
    sample.tools[0] = deeper;
    expect_refused(&sample, "chat.tools[0]", deeper, "chat.tools[0] is nested deeper than 100");
    sample.call.arguments = deeper;
    expect_refused(&sample, "chat.messages[0].tool_calls[0].arguments", deeper,
                   "chat.messages[0].tool_calls[0].arguments is nested deeper than 100");
    sample.messages[0].more = deeper;
    expect_refused(&sample, "chat.messages[0].more", deeper,
                   "chat.messages[0].more is nested deeper than 100");
}

Test(chat_prompt, what_is_wrong_is_refused_by_its_field)
{
    struct sample sample;
    init(&sample);
    sample.chat.n_messages = 0;
    expect_refused(&sample, "chat.messages", "0",
                   "chat.messages has no messages; it must have one at least");
    init(&sample);
    sample.messages[0].role = (char *)"";
    expect_refused(&sample, "chat.messages[0].role", "", "chat.messages[0].role is missing");
    init(&sample);
    sample.messages[0].more = (char *)"[1]";
    expect_refused(&sample, "chat.messages[0].more", "[1]",
                   "chat.messages[0].more is JSON, but not an object");
    init(&sample);
    sample.tools[0] = (char *)"{}";
    sample.tools[1] = (char *)"{\"a\": }";
    sample.chat.n_tools = 2;
    expect_refused(&sample, "chat.tools[1]", "{\"a\": }",
                   "chat.tools[1] is not JSON: line 1, column 7: unexpected token near '}'");
    init(&sample);
    sample.chat.template_arguments = (char *)"[7]";
    expect_refused(&sample, "chat.template_arguments", "[7]",
                   "chat.template_arguments is JSON, but not an object");
    sample.chat.template_arguments = (char *)"{\"tools\": []}";
    expect_refused(&sample, "chat.template_arguments.tools", "tools",
                   "chat.template_arguments.tools is a name that no template argument may have");
    init(&sample);
    sample.chat.continue_final_message = true;
    sample.chat.add_generation_prompt_presence_case =
        KVFERRY__V1__CHAT_PROMPT__ADD_GENERATION_PROMPT_PRESENCE_ADD_GENERATION_PROMPT;
    sample.chat.add_generation_prompt = true;
    expect_refused(&sample, "chat.add_generation_prompt", "true",
                   "chat.add_generation_prompt is true, and so is continue_final_message: one of "
                   "them can be");
}

Test(chat_prompt, bytes_have_a_bound)
{
    struct sample sample;
    struct chat_limits limits = CHAT_LIMITS_SAMPLE;
    struct rpc_error error = {0};
    char *json;
    size_t bytes, n;
    init(&sample);
    cr_assert_eq(chat_prompt_json(&sample.chat, &CHAT_LIMITS_SAMPLE, &json, &n, &error), STATUS_OK);
    free(json);
    limits.bytes_max = n;
    cr_assert_eq(chat_prompt_json(&sample.chat, &limits, &json, &bytes, &error), STATUS_OK);
    free(json);
    limits.bytes_max = n - 1;
    cr_assert_eq(chat_prompt_json(&sample.chat, &limits, &json, &bytes, &error),
                 STATUS_PROMPT_TOO_LONG);
    cr_assert_null(json);
    cr_assert_str_eq(error.field, "chat");
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%zu", n);
    cr_expect_str_eq(error.value, wanted);
    cr_expect(strstr(error.message, "(chat_request_bytes_max)"), "%s", error.message);
}
