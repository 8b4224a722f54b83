/*
 * conversation - the messages of a chat, and the files that hold them.
 *
 * A message is the JSON object of OpenAI's API: role, content and, where a file had them, tool_calls, tool_call_id, name and
 * other members, which are kept and sent. A file is {"messages": [...]}, or the list alone.
 *
 * Bounds: messages_max messages; CONVERSATION_FILE_BYTES_MAX of a file; PROMPT_BYTES_MAX of text.
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "proto/kvferry/v1/generation.pb-c.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVERSATION_FILE_BYTES_MAX (32u << 20)

struct conversation {
    json_t *messages; /* a list */
    uint32_t messages_max;
};

MUST_CHECK enum status conversation_init(struct conversation *conversation, uint32_t messages_max);
void conversation_finish(struct conversation *conversation);

/* text: [bytes] of UTF-8. PROMPT_TOO_LONG: messages_max is reached. NO_MEMORY. */
MUST_CHECK enum status conversation_add(struct conversation *conversation, const char *role,
                                        const char *text, size_t bytes, struct error *error);
/* Borrowed until the next change; NULL: there is no message. */
const char *conversation_last_role(const struct conversation *conversation);
/* There is one. */
void conversation_drop_last(struct conversation *conversation);
/* All but the system message. */
void conversation_clear(struct conversation *conversation);
/* The system message, which is the first one. "": none. */
MUST_CHECK enum status conversation_set_system(struct conversation *conversation, const char *text,
                                               struct error *error);
const char *conversation_system(const struct conversation *conversation); /* NULL: none */

/* Replaces the file, at once and with mode 0600. IO_FAILED with the reason. */
MUST_CHECK enum status conversation_save(const struct conversation *conversation, const char *path,
                                         struct error *error);
/* Replaces the messages, or on a failure leaves them. IO_FAILED, NOT_FOUND, CORRUPT with the member and its value. */
MUST_CHECK enum status conversation_load(struct conversation *conversation, const char *path,
                                         struct error *error);

/* The messages as a request has them; borrows the conversation, which must not change meanwhile. */
struct conversation_prompt {
    Kvferry__V1__ChatPrompt chat;
    Kvferry__V1__ChatMessage **list; /* chat.messages */
    Kvferry__V1__ChatMessage *rows;  /* [chat.n_messages] */
    char **owned;                    /* texts made for it */
    size_t n_owned;
};

/* NO_MEMORY. PROMPT_TOO_LONG: the texts together are longer than PROMPT_BYTES_MAX. */
MUST_CHECK enum status conversation_prompt_make(const struct conversation *conversation,
                                                struct conversation_prompt *prompt_out,
                                                struct error *error);
void conversation_prompt_finish(struct conversation_prompt *prompt);
