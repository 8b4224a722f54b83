/* conversation: a file that is loaded and saved keeps every member of every message, the request has them all, and a wrong file
 * is refused with the member and its value, and changes nothing. */
#include "cli/chat/conversation.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/conversation_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static const char *path_of(const char *name)
{
    static char path[2][128];
    static unsigned turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void remove_folder(void)
{
    (void)unlink(path_of("in"));
    (void)unlink(path_of("out"));
    cr_assert_eq(rmdir(folder), 0, "something else is left");
}

TestSuite(conversation, .init = make_folder, .fini = remove_folder);

static void write_in(const char *text, size_t n)
{
    FILE *file = fopen(path_of("in"), "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text, 1, n, file), n);
    fclose(file);
}

static struct conversation new_conversation(uint32_t messages_max)
{
    struct conversation conversation;
    cr_assert_eq(conversation_init(&conversation, messages_max), STATUS_OK);
    return conversation;
}

static void add(struct conversation *conversation, const char *role, const char *text)
{
    struct error error = {0};
    cr_assert_eq(conversation_add(conversation, role, text, strlen(text), &error), STATUS_OK, "%s",
                 error.text);
}

static const char WHOLE[] =
    "{\"model\": \"m\", \"messages\": ["
    "{\"role\": \"system\", \"content\": \"Be brief.\"},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\\u0000\"},"
    " {\"type\": \"text\", \"text\": \"b\"}]},"
    "{\"role\": \"assistant\", \"content\": null, \"reasoning_content\": \"hm\", \"tool_calls\": ["
    " {\"id\": \"c1\", \"type\": \"function\","
    "  \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]},"
    "{\"role\": \"tool\", \"tool_call_id\": \"c1\", \"name\": \"f\", \"content\": \"2\"}]}";

static void expect_whole(const struct conversation *conversation)
{
    struct conversation_prompt prompt;
    struct error error = {0};
    cr_assert_eq(conversation_prompt_make(conversation, &prompt, &error), STATUS_OK);
    cr_assert_eq(prompt.chat.n_messages, 4);
    Kvferry__V1__ChatMessage **messages = prompt.chat.messages;
    cr_expect_str_eq(messages[0]->role, "system");
    cr_expect_eq(messages[1]->content.len, 3);
    cr_expect_arr_eq(messages[1]->content.data, "a\0b", 3);
    cr_expect_eq(messages[2]->content_presence_case,
                 KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE__NOT_SET);
    cr_expect_str_eq(messages[2]->more, "{\"reasoning_content\":\"hm\"}");
    cr_assert_eq(messages[2]->n_tool_calls, 1);
    cr_expect_str_eq(messages[2]->tool_calls[0]->id, "c1");
    cr_expect_str_eq(messages[2]->tool_calls[0]->name, "f");
    cr_expect_str_eq(messages[2]->tool_calls[0]->arguments, "{\"x\": 1}");
    cr_expect_str_eq(messages[3]->tool_call_id, "c1");
    cr_expect_str_eq(messages[3]->name, "f");
    cr_expect_str_eq(messages[3]->more, "");
    conversation_prompt_finish(&prompt);
}

Test(conversation, a_file_is_the_same_after_load_and_save)
{
    struct conversation first = new_conversation(8), second = new_conversation(8);
    struct error error = {0};
    struct stat about;
    write_in(WHOLE, sizeof WHOLE - 1);
    cr_assert_eq(conversation_load(&first, path_of("in"), &error), STATUS_OK, "%s", error.text);
    expect_whole(&first);
    cr_assert_eq(conversation_save(&first, path_of("out"), &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(stat(path_of("out"), &about), 0);
    cr_expect_eq(about.st_mode & 0777, 0600);
    cr_assert_eq(conversation_load(&second, path_of("out"), &error), STATUS_OK, "%s", error.text);
    cr_expect(json_equal(first.messages, second.messages));
    expect_whole(&second);
    conversation_finish(&first);
    conversation_finish(&second);
}

struct wrong {
    char text[120], said[120];
};

static const struct wrong WRONG[] = {
    {"{\"messages\": 3}", "messages is 3; it must be a list of messages"},
    {"{}", "messages is missing; it must be a list"},
    {"[7]", "messages[0] is 7; it must be an object"},
    {"[{\"content\": \"x\"}]", "messages[0].role is missing; it must be a text"},
    {"[{\"role\": \"\"}]", "messages[0].role is \"\"; it must be a text"},
    {"[{\"role\": \"user\", \"content\": 1.5}]", "messages[0].content is 1.5; it must be a text"},
    {"[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
     "messages[0].content[0] is {\"type\":\"image_url\"}; it must be a part with a text"},
    {"[{\"role\": \"user\", \"name\": []}]",
     "messages[0].name is []; it must be a text without U+0000"},
    {"[{\"role\": \"user\", \"name\": \"a\\u0000\"}]",
     "messages[0].name is \"a\\u0000\"; it must be a text without U+0000"},
    {"[{\"role\": \"user\", \"tool_calls\": {}}]",
     "messages[0].tool_calls is {}; it must be a list"},
    {"[{\"role\": \"user\", \"tool_calls\": [1]}]",
     "messages[0].tool_calls[0].function is missing; it must be an object with a name"},
    {"[{\"role\": \"u\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {}}}]}]",
     "messages[0].tool_calls[0].function is {}; it must be given with arguments as a text"},
    {"[{\"role\": \"user\"", "line 1"},
    {"[{\"role\":\"u\"},{\"role\":\"u\"},{\"role\":\"u\"}]", "3 messages; messages_max is 2"},
};

ParameterizedTestParameters(conversation, a_wrong_file_changes_nothing)
{
    return cr_make_param_array(struct wrong, (struct wrong *)WRONG, sizeof WRONG / sizeof *WRONG);
}

ParameterizedTest(struct wrong *wrong, conversation, a_wrong_file_changes_nothing)
{
    struct conversation conversation = new_conversation(2);
    struct error error = {0};
    add(&conversation, "user", "kept");
    write_in(wrong->text, strlen(wrong->text));
    cr_assert_neq(conversation_load(&conversation, path_of("in"), &error), STATUS_OK);
    cr_expect(strstr(error.text, wrong->said), "\"%s\" is not in: %s", wrong->said, error.text);
    cr_expect_eq(json_array_size(conversation.messages), 1);
    conversation_finish(&conversation);
}

Test(conversation, the_system_message_is_first_and_outlives_a_clear)
{
    struct conversation conversation = new_conversation(3);
    struct error error = {0};
    cr_assert_null(conversation_system(&conversation));
    cr_assert_null(conversation_last_role(&conversation));
    add(&conversation, "user", "one");
    cr_assert_eq(conversation_set_system(&conversation, "S", &error), STATUS_OK);
    cr_expect_str_eq(conversation_system(&conversation), "S");
    cr_expect_str_eq(conversation_last_role(&conversation), "user");
    add(&conversation, "assistant", "two");
    cr_expect_eq(conversation_add(&conversation, "user", "x", 1, &error), STATUS_PROMPT_TOO_LONG);
    cr_expect(strstr(error.text, "4 messages; messages_max is 3"), "%s", error.text);
    conversation_clear(&conversation);
    cr_expect_eq(json_array_size(conversation.messages), 1);
    cr_assert_eq(conversation_set_system(&conversation, "T", &error), STATUS_OK);
    cr_expect_str_eq(conversation_system(&conversation), "T");
    cr_assert_eq(conversation_set_system(&conversation, "", &error), STATUS_OK);
    cr_expect_eq(json_array_size(conversation.messages), 0);
    conversation_finish(&conversation);
}

Test(conversation, a_failed_save_leaves_nothing)
{
    struct conversation conversation = new_conversation(3);
    struct error error = {0};
    cr_assert_eq(conversation_save(&conversation, "/nowhere/at/all", &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "cannot write /nowhere/at/all: No such file"), "%s", error.text);
    cr_assert_eq(mkfifo(path_of("fifo"), 0600), 0);
    cr_assert_eq(conversation_save(&conversation, path_of("fifo"), &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "fifo cannot be written: it is not a regular file"), "%s",
              error.text);
    cr_assert_eq(unlink(path_of("fifo")), 0);
    cr_assert_eq(conversation_save(&conversation, folder, &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "it is not a regular file"), "%s", error.text);
    conversation_finish(&conversation);
}
