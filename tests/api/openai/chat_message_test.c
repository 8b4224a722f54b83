/* chat_message: messages, parts, calls and tools become a ChatPrompt; what is none is refused with its place. */
#include "api/openai/chat_message.h"
#include "api/openai/openai_request.h"
#include "tests/router/support/chat_limits_sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct openai_request request;
static struct openai_error error;

static void forget(void)
{
    openai_request_finish(&request);
}

TestSuite(chat_message, .fini = forget);

static bool read_body(const char *body)
{
    openai_request_finish(&request);
    return openai_request_read(&request, true, &CHAT_LIMITS_SAMPLE, body, strlen(body), &error);
}

static const Kvferry__V1__ChatPrompt *chat(const char *body)
{
    cr_assert(read_body(body), "%s", error.message);
    cr_assert_eq(request.message.prompt_case, KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT);
    return request.message.chat;
}

static void expect_content(const Kvferry__V1__ChatMessage *message, const char *text, size_t n)
{
    cr_assert_eq(message->content_presence_case,
                 KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT);
    cr_expect_eq(message->content.len, n);
    cr_expect_eq(memcmp(message->content.data, text, n), 0);
}

Test(chat_message, contents_are_strings_or_parts_joined_by_line_feeds)
{
    const Kvferry__V1__ChatPrompt *prompt = chat(
        "{\"messages\": [{\"role\": \"system\", \"content\": \"be\\u0000low\"}, {\"role\": "
        "\"user\", \"name\": \"me\","
        "\"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"text\", \"text\": \"\"},"
        "{\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"content\": null}]}");
    cr_assert_eq(prompt->n_messages, 3);
    cr_expect_str_eq(prompt->messages[0]->role, "system");
    expect_content(prompt->messages[0], "be\0low", 6);
    expect_content(prompt->messages[1], "a\n\nb", 4);
    cr_expect_str_eq(prompt->messages[1]->name, "me");
    cr_expect_eq(prompt->messages[2]->content_presence_case,
                 KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE__NOT_SET);
}

Test(chat_message, calls_and_their_answers)
{
    const Kvferry__V1__ChatPrompt *prompt = chat(
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c1\", \"type\": "
        "\"function\", \"function\":"
        "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}, {\"function\": {\"name\": \"g\", "
        "\"arguments\": {\"b\": 2}}}]},"
        "{\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"light\"}]}");
    const Kvferry__V1__ChatMessage *message = prompt->messages[0];
    cr_assert_eq(message->n_tool_calls, 2);
    cr_expect_str_eq(message->tool_calls[0]->id, "c1");
    cr_expect_str_eq(message->tool_calls[0]->arguments, "{\"a\": 1}");
    cr_expect_str_eq(message->tool_calls[1]->name, "g");
    cr_expect_str_eq(message->tool_calls[1]->arguments, "{\"b\":2}");
    cr_expect_str_eq(prompt->messages[1]->tool_call_id, "c1");
}

Test(chat_message, other_members_go_to_the_template)
{
    const Kvferry__V1__ChatPrompt *prompt = chat(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"mood\": \"good\"}], "
        "\"continue_final_message\": true,"
        "\"add_generation_prompt\": false, \"chat_template_kwargs\": {\"think\": false},"
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}");
    cr_expect_str_eq(prompt->messages[0]->more, "{\"mood\":\"good\"}");
    cr_expect_str_eq(prompt->template_arguments, "{\"think\":false}");
    cr_expect(prompt->continue_final_message && !prompt->add_generation_prompt);
    cr_assert_eq(prompt->n_tools, 1);
    cr_expect_str_eq(prompt->tools[0], "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}");
    prompt = chat("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tool_choice\": "
                  "\"none\", \"tools\": [{}]}");
    cr_expect_eq(prompt->n_tools, 0);
}

#define ONE(members) "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {" members "}]}"
#define CALL(call)   ONE("\"role\": \"assistant\", \"tool_calls\": [" call "]")

static const struct {
    const char *body, *param;
} WRONG[] = {
    {"{}", "messages"},
    {"{\"messages\": null}", "messages"},
    {"{\"messages\": []}", "messages"},
    {"{\"messages\": \"x\"}", "messages"},
    {"{\"messages\": [5]}", "messages[0]"},
    {ONE("\"content\": \"x\""), "messages[1].role"},
    {ONE("\"role\": null"), "messages[1].role"},
    {ONE("\"role\": 5"), "messages[1].role"},
    {ONE("\"role\": \"us\\u0000er\""), "messages[1].role"},
    {ONE("\"role\": \"user\", \"name\": 5"), "messages[1].name"},
    {ONE("\"role\": \"user\", \"name\": \"\\u0000\""), "messages[1].name"},
    {ONE("\"role\": \"tool\", \"tool_call_id\": []"), "messages[1].tool_call_id"},
    {ONE("\"role\": \"user\", \"content\": 5"), "messages[1].content"},
    {ONE("\"role\": \"user\", \"content\": [5]"), "messages[1].content[0]"},
    {ONE("\"role\": \"user\", \"content\": [{\"type\": \"text\"}]"), "messages[1].content[0]"},
    {ONE("\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]"), "messages[1].content[0]"},
    {ONE("\"role\": \"assistant\", \"tool_calls\": {}"), "messages[1].tool_calls"},
    {CALL("5"), "messages[1].tool_calls"},
    {CALL("{\"function\": {\"name\": 5}}"), "messages[1].tool_calls"},
    {CALL("{\"function\": {\"name\": \"f\\u0000\"}}"), "messages[1].tool_calls"},
    {CALL("{\"id\": \"a\\u0000\", \"function\": {\"name\": \"f\"}}"), "messages[1].tool_calls"},
    {CALL("{\"function\": {\"name\": \"f\", \"arguments\": \"a\\u0000\"}}"),
     "messages[1].tool_calls"},
    {"{\"messages\": [{\"role\": \"user\"}], \"tools\": 5}", "tools"},
    {"{\"messages\": [{\"role\": \"user\"}], \"tools\": [5]}", "tools[0]"},
    {"{\"messages\": [{\"role\": \"user\"}], \"chat_template\": \"x\"}", "chat_template"},
    {"{\"messages\": [{\"role\": \"user\"}], \"chat_template_kwargs\": 5}", "chat_template_kwargs"},
    {"{\"messages\": [{\"role\": \"user\"}], \"add_generation_prompt\": 5}",
     "add_generation_prompt"},
    {"{\"messages\": [{\"role\": \"user\"}], \"continue_final_message\": 5}",
     "continue_final_message"},
};

Test(chat_message, what_is_wrong_is_named_with_its_place)
{
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        cr_expect_not(read_body(WRONG[i].body), "%s", WRONG[i].body);
        cr_expect_eq(error.code, 400);
        cr_expect_str_eq(error.param, WRONG[i].param, "%s: %s", WRONG[i].body, error.message);
    }
}

/* n times one, behind before and before behind. */
static bool read_many(const char *before, const char *one, size_t n, const char *behind)
{
    char *body = malloc(strlen(before) + n * (strlen(one) + 1) + strlen(behind) + 1);
    cr_assert_not_null(body);
    char *at = stpcpy(body, before);
    for (size_t i = 0; i < n; i++)
        at = stpcpy(stpcpy(at, i ? "," : ""), one);
    (void)stpcpy(at, behind);
    bool is_read = read_body(body);
    free(body);
    return is_read;
}

/* n of one are taken, and one more is refused with that sentence. */
static void expect_bound(const char *before, const char *one, size_t n, const char *behind,
                         const char *sentence)
{
    cr_expect(read_many(before, one, n, behind), "%s", error.message);
    cr_expect_not(read_many(before, one, n + 1, behind));
    cr_expect_str_eq(error.message, sentence);
}

Test(chat_message, what_is_counted_is_bounded_by_a_row_that_the_error_names)
{
    static const char USER[] = "{\"messages\": [{\"role\": \"user\"}], ";
    char tools[80], documents[80];
    snprintf(tools, sizeof tools, "%s\"tools\": [", USER);
    snprintf(documents, sizeof documents, "%s\"documents\": [", USER);
    expect_bound("{\"messages\": [", "{\"role\": \"user\", \"content\": \"x\"}", 4096, "]}",
                 "messages has 4097 messages; at most 4096 are taken (chat_messages_max)");
    expect_bound(tools, "{}", 512, "]}",
                 "tools has 513 tools; at most 512 are taken (chat_tools_max)");
    expect_bound(documents, "{}", 512, "]}",
                 "documents has 513 documents; at most 512 are taken (chat_documents_max)");
    expect_bound("{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [",
                 "{\"function\": {\"name\": \"f\"}}", 256, "]}]}",
                 "messages[0].tool_calls has 257 calls; at most 256 are taken (chat_calls_max)");
    expect_bound("{\"messages\": [{\"role\": \"user\", \"content\": [",
                 "{\"type\": \"text\", \"text\": \"x\"}", 1024, "]}]}",
                 "messages[0].content has 1025 parts; at most 1024 are taken (chat_parts_max)");
}

Test(chat_message, too_many_tools_are_refused_before_a_schema_is_made_of_them)
{
    cr_expect_not(read_many("{\"messages\": [{\"role\": \"user\"}], \"tool_choice\": \"required\", "
                            "\"tools\": [",
                            "{\"function\": {\"name\": \"f\"}}", 513, "]}"));
    cr_expect(strstr(error.message, "chat_tools_max"), "%s", error.message);
}

Test(chat_message, documents_are_objects)
{
    const Kvferry__V1__ChatPrompt *prompt = chat(
        "{\"messages\": [{\"role\": \"user\"}], \"documents\": [{\"title\": \"T\"}, {}]}");
    cr_assert_eq(prompt->n_documents, 2);
    cr_expect_str_eq(prompt->documents[0], "{\"title\":\"T\"}");
    cr_expect_str_eq(prompt->documents[1], "{}");
}
