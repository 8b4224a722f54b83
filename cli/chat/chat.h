/*
 * chat - a conversation with a model: asks for answers, and obeys the commands that a person types.
 *
 * A message that got no answer stays the last one: /retry asks it again, and the next message takes its place.
 *
 * Thread: main.
 */
#pragma once

#include "cli/chat/chat_config.h"
#include "cli/chat/conversation.h"
#include "cli/client/token_source.h"
#include "process/ports/address.h"
#include "rpc/client/client.h"

#include <stdbool.h>
#include <stddef.h>

struct chat {
    struct chat_config values;
    struct config *config;
    const char *command;
    char address[ADDRESS_TEXT_MAX];
    char authorization[TOKEN_VALUE_MAX];
    struct rpc_client_tls tls;
    bool has_tls;
    struct sampling_fields sampling;
    struct conversation conversation;
    bool is_unanswered;   /* the last message has no answer yet */
    bool is_conversation; /* with a person; else one answer */
    int signal_number;    /* the signal that ended the last answer; 0: none */
    bool is_unprinted;    /* standard output failed */
};

/* Adds the message and prints the answer as it arrives. OK, also if Ctrl-C ended the answer: what came of it is kept. On a
 * failure the message is the last one. */
MUST_CHECK enum status chat_say(struct chat *chat, const char *text, size_t bytes,
                                struct error *error);
/* The same for the last message again; its old answer is gone. NOT_FOUND: there is none. */
MUST_CHECK enum status chat_retry(struct chat *chat, struct error *error);

/* A line of a person that begins with /. *ends_out: /quit. A failure is one of the command, for the person. */
MUST_CHECK enum status chat_command_run(struct chat *chat, char *line, bool *ends_out,
                                        struct error *error);
