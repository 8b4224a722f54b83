/*
 * chat_message - the messages and tools of a body of /v1/chat/completions as a kvferry.v1.ChatPrompt.
 *
 * Content is a string or parts of type text, which are joined by line feeds. Other members of a message go to the template as they
 * are. Counts are within chat_limits here, before anything is copied; bytes are bounded by the body's own, and by the router.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/json_fields.h"
#include "router/requests/chat_limits.h"
#include "router/requests/door.h"

struct chat_message;

/* Sets the message's prompt, which borrows from the body and from *chat_out. On failure the fields' error is set. In both cases
 * chat_messages_free. */
void chat_messages_read(const struct json_fields *fields, const struct chat_limits *limits,
                        Kvferry__V1__GenerateRequest *message, struct chat_message **chat_out);
void chat_messages_free(struct chat_message *chat); /* NULL is fine */
