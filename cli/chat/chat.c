#include "cli/chat/chat.h"

#include "base/secret.h"
#include "cli/chat/line_reader.h"
#include "cli/client/listener.h"
#include "cli/client/prompt.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CONFIG_DEFINE(chat_config, CHAT_CONFIG, CONFIG_NO_ALIASES)

static void say(const struct chat *chat, enum status status, const struct error *error)
{
    fprintf(stderr, "%s: %s\n", chat->command, error->text[0] ? error->text : status_text(status));
}

/* ---- a conversation ---- */

/* False: the chat is over, and *exit_out says how. */
static bool run_line(struct chat *chat, char *line, size_t bytes, int *exit_out)
{
    struct error error = {0};
    bool ends = false;
    enum status status = STATUS_OK;
    assert(line[bytes] == '\0');
    chat->signal_number = 0;
    if (line[0] == '/' && line[1] != '/')
        status = chat_command_run(chat, line, &ends, &error);
    else if (line[0] == '/')
        status = chat_say(chat, line + 1, bytes - 1, &error);
    else if (line[strspn(line, " \t\n")])
        status = chat_say(chat, line, bytes, &error);
    if (chat->is_unprinted || chat->signal_number == SIGTERM) {
        *exit_out = chat->is_unprinted ? EXIT_FAILURE : interrupt_status(SIGTERM);
        return false;
    }
    if (status != STATUS_OK)
        say(chat, status, &error);
    if (status == STATUS_NO_CHAT_TEMPLATE) /* no message will be answered */
        *exit_out = EXIT_FAILURE;
    return !ends && status != STATUS_NO_CHAT_TEMPLATE;
}

/* What is no message. False: the chat is over. */
static bool run_end(enum line_end end, unsigned *n_interrupts, const struct chat *chat,
                    int *exit_out)
{
    *n_interrupts = end == LINE_INTERRUPT ? *n_interrupts + 1 : 0;
    switch (end) {
    case LINE_INTERRUPT:
        if (*n_interrupts > 1)
            *exit_out = interrupt_status(SIGINT);
        else
            fputs("(Ctrl-C again or Ctrl-D ends the chat)\n", stderr);
        return *n_interrupts < 2;
    case LINE_TOO_LONG:
        fprintf(stderr, "%s: a message has at most %u bytes; this one was not sent\n",
                chat->command, PROMPT_BYTES_MAX);
        return true;
    case LINE_NO_MEMORY:
        say(chat, STATUS_NO_MEMORY, &(struct error){0});
        return true;
    case LINE_SIGNAL:
        *exit_out = interrupt_status(SIGTERM);
        return false;
    case LINE_CLOSED:
        return false;
    default:
        return true;
    }
}

static int converse(struct chat *chat)
{
    const struct line_reader_options options = {.prompt = "> ",
                                                .more_prompt = ". ",
                                                .history_lines = chat->values.history_lines,
                                                .bytes_max = PROMPT_BYTES_MAX};
    struct line_reader *reader = NULL;
    struct error error = {0};
    int exit_status = EXIT_SUCCESS;
    unsigned n_interrupts = 0;
    enum status status = line_reader_create(&options, &reader, &error);
    if (status != STATUS_OK || error.text[0])
        say(chat, status, &error);
    if (status != STATUS_OK)
        return EXIT_FAILURE;
    for (bool goes_on = true; goes_on;) {
        char *line = NULL;
        size_t bytes = 0;
        enum line_end end = line_reader_read(reader, &line, &bytes);
        goes_on = run_end(end, &n_interrupts, chat, &exit_status);
        if (end == LINE_READ)
            goes_on = run_line(chat, line, bytes, &exit_status);
        free(line);
    }
    error = (struct error){0};
    if (!line_reader_destroy(reader, &error))
        say(chat, STATUS_IO_FAILED, &error);
    return exit_status;
}

/* ---- one answer ---- */

static enum status answer_once(struct chat *chat, struct error *error)
{
    const struct prompt_source source = {
        .argument = config_n_positionals(chat->config) > 0 ? config_positional(chat->config, 0)
                                                           : NULL,
        .file = "",
    };
    struct prompt prompt = {0};
    interrupt_ends(); /* while it may wait for a person to type */
    enum status status = prompt_take(&source, &prompt, error);
    interrupt_waits();
    assert(status != STATUS_OK || prompt.bytes > 0);
    if (status == STATUS_OK)
        status = chat_say(chat, (const char *)prompt.data, prompt.bytes, error);
    free(prompt.data);
    return status;
}

/* ---- main ---- */

static enum status take_system(struct chat *chat, struct error *error)
{
    const struct chat_config *values = &chat->values;
    assert(!conversation_last_role(&chat->conversation)); /* the system message is the first one */
    if (values->system[0] && values->system_file[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the system message is given twice: with --system and --system-file");
    if (!values->system_file[0])
        return conversation_set_system(&chat->conversation, values->system, error);
    const struct prompt_source source = {.file = values->system_file};
    struct prompt prompt = {0};
    TRY(prompt_take(&source, &prompt, error));
    enum status status = conversation_add(&chat->conversation, "system", (const char *)prompt.data,
                                          prompt.bytes, error);
    free(prompt.data);
    return status;
}

static enum status prepare(struct chat *chat, struct error *error)
{
    const struct server_tls_options options = SERVER_TLS_OPTIONS(&chat->values);
    sampling_fields_take(chat->config, chat_config_table(), &chat->values, &chat->sampling);
    TRY(listener_address(chat->values.server, chat->address, error));
    TRY(token_source_read(chat->values.token_file, chat->authorization, error));
    TRY(server_tls_read(&options, &chat->tls, &chat->has_tls, error));
    TRY(conversation_init(&chat->conversation, chat->values.messages_max));
    TRY(take_system(chat, error));
    chat->is_conversation = config_n_positionals(chat->config) == 0 && isatty(STDIN_FILENO);
    if (chat->is_conversation && !isatty(STDOUT_FILENO))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a conversation needs a terminal, and standard output is none: give the "
                         "message as an argument or through a pipe");
    return STATUS_OK;
}

static int run(struct chat *chat)
{
    struct error error = {0};
    enum status status = prepare(chat, &error);
    if (status == STATUS_OK && chat->is_conversation)
        return converse(chat);
    if (status == STATUS_OK)
        status = answer_once(chat, &error);
    if (chat->signal_number)
        return interrupt_status(chat->signal_number);
    if (chat->is_unprinted)
        return EXIT_FAILURE; /* output_end prints the reason */
    if (status == STATUS_OK)
        return EXIT_SUCCESS;
    say(chat, status, &error);
    bool is_misused = status == STATUS_INVALID_ARGUMENT && !chat->is_unanswered;
    return is_misused ? CONFIG_EXIT_MISUSED : EXIT_FAILURE;
}

int chat_main(const struct config_input *input)
{
    struct chat chat = {.command = input->command};
    int exit_status;
    if (command_configure(chat_config_table(), input, &chat.values, &chat.config, &exit_status))
        return exit_status;
    exit_status = run(&chat);
    secret_wipe(chat.authorization, sizeof chat.authorization);
    conversation_finish(&chat.conversation);
    config_destroy(chat.config);
    return exit_status;
}
