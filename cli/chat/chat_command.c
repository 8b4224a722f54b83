/* chat_command - the commands that a person types in a chat: /help and so on. */
#include "base/config/nearest.h"
#include "cli/chat/chat.h"
#include "cli/output.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\n"

/* words: what follows the name, without blanks around it. */
struct chat_command {
    const char *name, *usage, *help;
    enum status (*run)(struct chat *chat, char *words, struct error *error); /* NULL: /quit */
};

static enum status run_help(struct chat *chat, char *words, struct error *error);

static enum status run_system(struct chat *chat, char *words, struct error *error)
{
    if (!words[0]) {
        const char *text = conversation_system(&chat->conversation);
        const char *shown = text ? text : "(no system message)";
        (void)output_write_text(shown, strlen(shown));
        (void)output_write("\n", 1);
        return STATUS_OK;
    }
    if (chat->is_unanswered)
        conversation_drop_last(&chat->conversation);
    chat->is_unanswered = false;
    return conversation_set_system(&chat->conversation, strcmp(words, "-") == 0 ? "" : words,
                                   error);
}

static enum status run_set(struct chat *chat, char *words, struct error *error)
{
    char *value = words + strcspn(words, BLANKS);
    if (!words[0]) {
        sampling_fields_print(&chat->sampling, stdout);
        return STATUS_OK;
    }
    assert(value > words); /* words begin with no blank */
    if (*value)
        *value++ = '\0';
    value += strspn(value, BLANKS);
    if (!*value)
        return error_set(error, STATUS_INVALID_ARGUMENT, "/set %.60s needs a value", words);
    return sampling_fields_set(chat_config_table(), words, value, &chat->sampling, error);
}

static enum status need_file(const char *name, const char *words, struct error *error)
{
    if (words[0])
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s needs the name of a file", name);
}

static enum status run_save(struct chat *chat, char *words, struct error *error)
{
    TRY(need_file("/save", words, error));
    return conversation_save(&chat->conversation, words, error);
}

static enum status run_load(struct chat *chat, char *words, struct error *error)
{
    TRY(need_file("/load", words, error));
    TRY(conversation_load(&chat->conversation, words, error));
    chat->is_unanswered = false;
    return STATUS_OK;
}

static enum status run_clear(struct chat *chat, char *words, struct error *error)
{
    (void)words;
    (void)error;
    conversation_clear(&chat->conversation);
    chat->is_unanswered = false;
    return STATUS_OK;
}

static enum status run_retry(struct chat *chat, char *words, struct error *error)
{
    (void)words;
    return chat_retry(chat, error);
}

static const struct chat_command COMMANDS[] = {
    {"/system", "/system [TEXT]", "show or replace the system message; - removes it", run_system},
    {"/set", "/set [NAME VALUE]", "show or set a sampling parameter: /set temperature 0.7",
     run_set},
    {"/save", "/save FILE", "write the messages to FILE, as JSON", run_save},
    {"/load", "/load FILE", "replace the messages by those of FILE", run_load},
    {"/clear", "/clear", "begin again; the system message stays", run_clear},
    {"/retry", "/retry", "ask for another answer to the last message", run_retry},
    {"/help", "/help", "show this", run_help},
    {"/quit", "/quit", "end the chat; so does Ctrl-D", NULL},
};

#define N_COMMANDS (sizeof COMMANDS / sizeof *COMMANDS)

static enum status run_help(struct chat *chat, char *words, struct error *error)
{
    (void)chat;
    (void)words;
    (void)error;
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-18s %s\n", COMMANDS[i].usage, COMMANDS[i].help);
    fputs("A line that ends in \\ continues. A message that begins with // is sent with one /.\n"
          "Ctrl-C ends an answer; twice at an empty prompt it ends the chat.\n",
          stdout);
    return STATUS_OK;
}

static enum status refuse(const char *name, struct error *error)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_BYTES];
    nearest_init(&nearest, name);
    for (size_t i = 0; i < N_COMMANDS; i++)
        nearest_offer(&nearest, COMMANDS[i].name);
    nearest_hint(&nearest, hint);
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "unknown command %.60s%s (/help lists them; a message that begins with / "
                     "needs //)",
                     name, hint);
}

enum status chat_command_run(struct chat *chat, char *line, bool *ends_out, struct error *error)
{
    assert(line[0] == '/');
    char *words = line + strcspn(line, BLANKS);
    if (*words)
        *words++ = '\0';
    words += strspn(words, BLANKS);
    for (size_t n = strlen(words); n > 0 && strchr(BLANKS, words[n - 1]); n--)
        words[n - 1] = '\0';
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(COMMANDS[i].name, line) == 0) {
            *ends_out = !COMMANDS[i].run;
            return COMMANDS[i].run ? COMMANDS[i].run(chat, words, error) : STATUS_OK;
        }
    return refuse(line, error);
}
