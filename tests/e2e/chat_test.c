/* `kvferry chat` is a conversation on a terminal and one answer elsewhere, by the model's template; `generate` says that there is one,
 * and shows choices, log-probabilities and JSON. */
#include "support/child.h"
#include "support/command.h"
#include "support/server.h"
#include "support/terminal.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define CTRL_C      "\003"
#define CTRL_D      "\004"
#define PASTE(text) "\033[200~" text "\033[201~"
#define PROMPT      "> "
#define INTERRUPTED 130

/* Each message in brackets, so that the demo model's text depends on every role and text. */
#define TEMPLATE                                                                                   \
    "{% for m in messages %}[{{ m.role }}: {{ m.content }}] {% endfor %}"                          \
    "{% if add_generation_prompt %}In the beginning{% endif %}"

static struct child server;
static struct terminal terminal; /* large */

static void start(const char *template)
{
    static char path[160];
    command_folder_make();
    snprintf(path, sizeof path, "%s", in_folder("template.jinja"));
    write_file(path, TEMPLATE, sizeof TEMPLATE - 1);
    const char *const with[] = {"--chat-template", path, NULL};
    server_start(&server, template ? with : NULL);
    setenv("KVFERRY_SERVER", address_of(server.grpc), 1);
    setenv("KVFERRY_TEMPERATURE", "0", 1);
    setenv("KVFERRY_MAX_TOKENS", "6", 1);
    setenv("TERM", "xterm", 1);
    setenv("XDG_STATE_HOME", in_folder("state"), 1);
}

static void stop(void)
{
    child_stop(&server);
    command_folder_remove();
}

static void expect_exit(int exit_status)
{
    int status = terminal_finish(&terminal);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == exit_status, "wait status %d:\n%s",
              status, terminal.text);
}

/* Starts a chat on the terminal and waits for its prompt. */
static void chat(const char *flag, const char *value)
{
    terminal_start(&terminal, (const char *const[]){"chat", flag, value, NULL});
    terminal_wait(&terminal, PROMPT);
}

/* Forgets what was shown, types, and waits until the next prompt. */
static void type(const char *keys)
{
    terminal.n = 0;
    memset(terminal.text, 0, sizeof terminal.text);
    terminal_type(&terminal, keys);
    terminal_wait(&terminal, "\033[?2004l"); /* the line was taken */
    terminal_wait(&terminal, "\033[?2004h" PROMPT);
}

static json_t *load(const char *name)
{
    json_error_t why;
    json_t *root = json_load_file(in_folder(name), 0, &why);
    cr_assert_not_null(root, "%s", why.text);
    return root;
}

static void expect_message(const json_t *root, size_t index, const char *role, const char *content)
{
    const json_t *message = json_array_get(json_object_get(root, "messages"), index);
    cr_expect_str_eq(json_string_value(json_object_get(message, "role")), role);
    if (content)
        cr_expect_str_eq(json_string_value(json_object_get(message, "content")), content);
}

/* ---- one answer ---- */

Test(chat, argument_and_pipe_are_answered_by_the_template_and_alone)
{
    static char text[COMMAND_TEXT_MAX];
    start(TEMPLATE);
    RUN("generate", "--add-special-tokens=no", "[system: S] [user: Hello] In the beginning");
    EXPECT_OK();
    cr_assert_str_empty(last_command.err, "the text has its special tokens: %s", last_command.err);
    snprintf(text, sizeof text, "%s", last_command.out);
    RUN("chat", "--system", "S", "Hello");
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, text);
    cr_assert_str_eq(last_command.err, "kvferry chat: the answer was cut after 6 tokens "
                                       "(--max-tokens allows more)\n");
    write_file(in_folder("system"), "S\n", 2);
    char system[160];
    snprintf(system, sizeof system, "%s", in_folder("system"));
    char question[160];
    snprintf(question, sizeof question, "%s", in_folder("question"));
    write_file(question, "Hello\n", 6);
    command_run(question, (const char *const[]){"chat", "--system-file", system, NULL});
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, text);
    RUN("chat", "--system", "S", "--system-file", system, "Hello");
    expect_misused("the system message is given twice");
    RUN("chat", "");
    expect_refused("the prompt is empty");
    RUN("chat", "--temperature", "101", "Hello");
    expect_misused("--temperature");
    RUN("chat", "--messages-max", "2", "--system", "S", "--verbose", "Hello");
    cr_assert_eq(last_command.exit_status, 1);
    EXPECT_IN(last_command.err, "messages_max is 2");
    cr_assert_eq(access(in_folder("state"), F_OK), -1, "one answer has no history");
    stop();
}

Test(chat, without_max_tokens_an_answer_goes_on_to_the_end_of_the_context)
{
    static const char WORDS[] = "And God said, ";
    static char question[400 * (sizeof WORDS - 1) + 1];
    start(TEMPLATE);
    unsetenv("KVFERRY_MAX_TOKENS");
    for (size_t at = 0; at + 1 < sizeof question; at += sizeof WORDS - 1)
        memcpy(question + at, WORDS, sizeof WORDS - 1);
    RUN("chat", "--ignore-eos", question);
    EXPECT_OK();
    EXPECT_IN(last_command.err, " tokens (the model's context of ");
    EXPECT_IN(last_command.err, " tokens is full)\n");
    cr_expect_null(strstr(last_command.err, "after 256 tokens"), "%s", last_command.err);
    stop();
}

Test(chat, an_answer_that_the_router_bounds_is_told_so)
{
    setenv("KVFERRY_CHAT_TOKENS_MAX", "5", 1);
    start(TEMPLATE);
    unsetenv("KVFERRY_CHAT_TOKENS_MAX");
    unsetenv("KVFERRY_MAX_TOKENS");
    RUN("chat", "--ignore-eos", "Hello");
    EXPECT_OK();
    EXPECT_IN(last_command.err,
              "was cut after 5 tokens (the router's chat_tokens_max; --max-tokens allows more)\n");
    stop();
}

Test(chat, a_model_without_a_template_says_what_to_do)
{
    start(NULL);
    RUN("chat", "Hello");
    cr_assert_eq(last_command.exit_status, 1);
    EXPECT_IN(last_command.err, "NO_CHAT_TEMPLATE: ");
    EXPECT_IN(last_command.err, "start the router with --chat-template FILE");
    cr_assert_str_empty(last_command.out);
    RUN("generate", "Hello");
    EXPECT_OK();
    cr_assert_str_empty(last_command.err);
    chat(NULL, NULL);
    terminal_type(&terminal, "Hello\n");
    expect_exit(EXIT_FAILURE);
    EXPECT_IN(terminal.text, "NO_CHAT_TEMPLATE");
    stop();
}

/* ---- a conversation ---- */

Test(chat, a_conversation_grows_is_saved_and_goes_on)
{
    char line[300];
    start(TEMPLATE);
    chat("--system", "S");
    type("one\\\ntwo\n");
    type(PASTE("a\rb") " c\n");
    type("//x\n");
    snprintf(line, sizeof line, "/save %s\n", in_folder("saved.json"));
    type(line);
    json_t *root = load("saved.json");
    cr_assert_eq(json_array_size(json_object_get(root, "messages")), 7);
    expect_message(root, 0, "system", "S");
    expect_message(root, 1, "user", "one\ntwo");
    expect_message(root, 2, "assistant", NULL);
    expect_message(root, 3, "user", "a\nb c");
    expect_message(root, 5, "user", "/x");
    const char *answer = json_string_value(
        json_object_get(json_array_get(json_object_get(root, "messages"), 6), "content"));
    const char *last_line = strrchr(answer, '\n') ? strrchr(answer, '\n') + 1 : answer;
    cr_assert_str_not_empty(last_line);
    type("/retry\n");
    EXPECT_IN(terminal.text, last_line);

    type("/set max_tokens 1\n");
    type("/set\n");
    EXPECT_IN(terminal.text, "  max_tokens 1\r\n");
    type("three\n");
    EXPECT_IN(terminal.text, "was cut after 1 token (/set max_tokens allows more)");
    type("/clear\n");
    type("/retry\n");
    EXPECT_IN(terminal.text, "there is no message to answer");
    snprintf(line, sizeof line, "/load %s\n", in_folder("saved.json"));
    type(line);
    type("/set max_tokens 6\n");
    type("/retry\n");
    EXPECT_IN(terminal.text, last_line);
    type("/nothing\n");
    EXPECT_IN(terminal.text, "unknown command /nothing");
    terminal_type(&terminal, CTRL_D);
    expect_exit(EXIT_SUCCESS);
    json_decref(root);

    struct stat about;
    char history[200];
    snprintf(history, sizeof history, "%s/kvferry/chat_history", in_folder("state"));
    cr_assert_eq(stat(history, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600);
    chat(NULL, NULL);
    terminal_type(&terminal, "\033[A");
    terminal_wait(&terminal, "/nothing");
    terminal_type(&terminal, CTRL_C);
    terminal_wait(&terminal, "\n\033[?2004h" PROMPT);
    terminal_type(&terminal, "/quit\n");
    expect_exit(EXIT_SUCCESS);
    stop();
}

Test(chat, no_history_is_kept_where_it_is_off)
{
    start(TEMPLATE);
    chat("--history-lines", "0");
    type("Hello\n");
    terminal_type(&terminal, CTRL_D);
    expect_exit(EXIT_SUCCESS);
    cr_assert_eq(access(in_folder("state"), F_OK), -1);
    stop();
}

Test(chat, ctrl_c_ends_an_answer_and_twice_at_an_empty_prompt_the_chat)
{
    char line[300];
    start(TEMPLATE);
    chat("--max-tokens", "1500");
    terminal_type(&terminal, "/set ignore_eos yes\n");
    terminal_wait(&terminal, "yes\r\n\033[?2004l\033[?2004h" PROMPT);
    terminal.n = 0;
    memset(terminal.text, 0, sizeof terminal.text);
    terminal_type(&terminal, "Hello\n");
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (terminal.n < 200) { /* the answer is on its way */
        cr_assert_lt(clock_now_ns(), until_ns, "no answer:\n%s", terminal.text);
        terminal_read(&terminal);
    }
    terminal_type(&terminal, CTRL_C);
    terminal_wait(&terminal, "\033[?2004h" PROMPT);
    snprintf(line, sizeof line, "/save %s\n", in_folder("saved.json"));
    type(line);
    json_t *root = load("saved.json");
    const json_t *messages = json_object_get(root, "messages");
    cr_assert_eq(json_array_size(messages), 2, "what came of the answer is kept");
    expect_message(root, 1, "assistant", NULL);
    size_t bytes = json_string_length(json_object_get(json_array_get(messages, 1), "content"));
    cr_assert(bytes > 50, "%zu bytes", bytes);
    json_decref(root);

    terminal.n = 0;
    memset(terminal.text, 0, sizeof terminal.text);
    terminal_type(&terminal, "typed");
    terminal_wait(&terminal, "typed");
    terminal_type(&terminal, CTRL_C);
    terminal_wait(&terminal, "\033[?2004h" PROMPT);
    cr_assert_null(strstr(terminal.text, "Ctrl-C again"), "%s", terminal.text);
    terminal_type(&terminal, CTRL_C);
    terminal_wait(&terminal, "(Ctrl-C again or Ctrl-D ends the chat)\r\n\033[?2004h" PROMPT);
    terminal_type(&terminal, CTRL_C);
    expect_exit(INTERRUPTED);
    stop();
}

Test(chat, a_terminal_that_goes_and_a_signal_end_it)
{
    start(TEMPLATE);
    chat(NULL, NULL);
    terminal_close(&terminal);
    expect_exit(EXIT_FAILURE); /* its output cannot be written */
    chat(NULL, NULL);
    kill(terminal.pid, SIGTERM);
    expect_exit(128 + SIGTERM);
    stop();
}

Test(chat, a_stopped_chat_gives_the_terminal_back_and_goes_on_with_its_line)
{
    int status;
    start(TEMPLATE);
    chat(NULL, NULL);
    terminal_type(&terminal, "/sys");
    terminal_wait(&terminal, "/sys");
    terminal_type(&terminal, "\032");
    cr_assert_eq(waitpid(terminal.pid, &status, WUNTRACED), terminal.pid);
    cr_assert(WIFSTOPPED(status));
    struct termios modes;
    cr_assert_eq(tcgetattr(terminal.master, &modes), 0);
    cr_assert(modes.c_lflag & ICANON);
    terminal.n = 0;
    memset(terminal.text, 0, sizeof terminal.text);
    kill(terminal.pid, SIGCONT);
    terminal_wait(&terminal, "\033[?2004h" PROMPT "/sys");
    terminal.n = 0;
    memset(terminal.text, 0, sizeof terminal.text);
    terminal_type(&terminal, "tem\n");
    terminal_wait(&terminal, "(no system message)");
    /* Before the prompt the terminal is in its own mode, which takes Ctrl-D for itself. */
    terminal_wait(&terminal, "\033[?2004h" PROMPT);
    terminal_type(&terminal, CTRL_D);
    expect_exit(EXIT_SUCCESS);
    stop();
}

/* ---- generate ---- */

/* The next line of a text. */
static json_t *next_line(const char **at)
{
    size_t length = strcspn(*at, "\n");
    json_t *root = json_loadb(*at, length, 0, NULL);
    cr_assert_not_null(root, "%s", *at);
    *at += length + 1;
    return root;
}

/* "In the beginning" is 6 tokens with the one before it. */
static void expect_prompt_logprobs(void)
{
    RUN("generate", "--prompt-logprobs", "1", "--max-tokens", "2", "In the beginning");
    EXPECT_OK();
    EXPECT_IN(last_command.err, "log-probabilities of the prompt");
    cr_assert_null(strstr(last_command.err, "of choice 1"));
    const char *row = strstr(last_command.err, "\n  ");
    double logprob, best;
    cr_assert(row && sscanf(row, " %lf 40 \"I\" | %lf 32 \"A\"", &logprob, &best) == 2, "%s",
              last_command.err);
    cr_assert(logprob < best && best < 0);

    RUN("generate", "--json", "-n", "2", "--prompt-logprobs", "0", "In the beginning");
    EXPECT_OK();
    const char *at = last_command.out;
    json_t *first = next_line(&at), *second = next_line(&at),
           *scores = json_object_get(first, "prompt_logprobs");
    cr_assert_eq(json_array_size(scores), 6);
    cr_assert(json_is_null(json_object_get(json_array_get(scores, 0), "logprob")));
    const char *rest = "In the beginning";
    for (size_t i = 1; i < 6; i++) {
        const json_t *one = json_array_get(scores, i);
        const char *text = json_string_value(json_object_get(one, "text"));
        cr_assert_lt(json_real_value(json_object_get(one, "logprob")), 0);
        cr_assert_eq(json_array_size(json_object_get(one, "top")), 0);
        cr_assert_eq(strncmp(rest, text, strlen(text)), 0, "%s: %s", text, rest);
        rest += strlen(text);
    }
    cr_assert_str_empty(rest);
    cr_assert_null(json_object_get(second, "prompt_logprobs"), "the prompt is that of both");
    json_decref(first);
    json_decref(second);
}

Test(chat, generate_shows_choices_logprobs_and_json_and_names_the_chat_once)
{
    start(TEMPLATE);
    RUN("generate", "-n", "2", "In the beginning");
    EXPECT_OK();
    const char *second = strstr(last_command.out, "--- choice 2 of 2 ---\n");
    cr_assert(second && strncmp(last_command.out, "--- choice 1 of 2 ---\n", 22) == 0, "%s",
              last_command.out);
    cr_assert_eq(
        strncmp(last_command.out + 22, second + 22, (size_t)(second - last_command.out) - 22), 0,
        "greedy choices are equal: %s", last_command.out);
    const char *hint = strstr(last_command.err, "`kvferry chat` uses the template");
    cr_assert_not_null(hint, "%s", last_command.err);
    cr_assert_null(strstr(hint + 1, "`kvferry chat`"));

    RUN("generate", "--logprobs", "2", "--max-tokens", "2", "In the beginning");
    EXPECT_OK();
    EXPECT_IN(last_command.err, "log-probabilities of choice 1");
    double logprob, best;
    unsigned id, best_id;
    const char *row = strstr(last_command.err, "\n  ");
    cr_assert(
        row && sscanf(row, " %lf %u \"%*[^\"]\" | %lf %u \"", &logprob, &id, &best, &best_id) == 4,
        "%s", last_command.err);
    cr_assert(logprob < 0 && logprob == best && id == best_id, "greedy takes the likeliest: %s",
              last_command.err);

    RUN("generate", "--json", "--choices", "3", "--logprobs", "1", "In the beginning");
    EXPECT_OK();
    const char *at = last_command.out;
    for (int i = 0; i < 3; i++) {
        json_t *root = next_line(&at), *logprobs = json_object_get(root, "logprobs");
        cr_expect_eq(json_integer_value(json_object_get(root, "index")), i);
        cr_expect_eq(json_array_size(logprobs), 6);
        const char *rest = json_string_value(json_object_get(root, "text"));
        for (size_t t = 0; t < json_array_size(logprobs); t++) {
            const char *token = json_string_value(
                json_object_get(json_array_get(logprobs, t), "text"));
            cr_assert_eq(strncmp(rest, token, strlen(token)), 0, "%s: %s", token, rest);
            rest += strlen(token);
        }
        cr_expect_str_empty(rest);
        cr_expect_str_eq(json_string_value(json_object_get(root, "finish_reason")), "length");
        json_decref(root);
    }
    cr_assert_eq(*at, '\0', "%s", at);
    expect_prompt_logprobs();
    RUN("generate", "-n", "17", "In the beginning");
    expect_misused("-n: 17");
    RUN("generate", "--json", "--answer-bytes-max", "1K", "--max-tokens", "1000", "--ignore-eos",
        "In the beginning");
    expect_refused("the reply needs more than 1024 bytes (--answer-bytes-max)");
    stop();
}
