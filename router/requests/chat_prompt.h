/*
 * chat_prompt - the messages of a chat request as the JSON that text/template_renderer takes.
 *
 * Bounds: CHAT_PROMPT_MESSAGES_MAX messages, CHAT_PROMPT_TOOLS_MAX tools, CHAT_PROMPT_CALLS_MAX calls a message; bytes_max of JSON,
 * in which no field is nested deeper than CHAT_PROMPT_DEPTH_MAX: the renderer reads 127 levels of the whole.
 *
 * Thread: any; no state.
 */
#pragma once

#include "router/requests/door.h"
#include "rpc/rpc_error.h"

#include <stddef.h>

#define CHAT_PROMPT_MESSAGES_MAX 4096u
#define CHAT_PROMPT_TOOLS_MAX    512u
#define CHAT_PROMPT_CALLS_MAX    256u
#define CHAT_PROMPT_DEPTH_MAX    100u

/* json_out: [bytes_out] and a NUL, the caller frees. INVALID_ARGUMENT names the field and what it is; PROMPT_TOO_LONG, NO_MEMORY. */
MUST_CHECK enum status chat_prompt_json(const Kvferry__V1__ChatPrompt *chat, size_t bytes_max,
                                        char **json_out, size_t *bytes_out,
                                        struct rpc_error *error);
