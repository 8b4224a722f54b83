/*
 * chat_prompt - the messages of a chat request as the JSON that text/template_renderer takes, within chat_limits.
 *
 * Thread: any; no state.
 */
#pragma once

#include "router/requests/chat_limits.h"
#include "router/requests/door.h"
#include "rpc/rpc_error.h"

#include <stddef.h>

/* json_out: [bytes_out] and a NUL, the caller frees. INVALID_ARGUMENT names the field and what it is; PROMPT_TOO_LONG, NO_MEMORY. */
MUST_CHECK enum status chat_prompt_json(const Kvferry__V1__ChatPrompt *chat,
                                        const struct chat_limits *limits, char **json_out,
                                        size_t *bytes_out, struct rpc_error *error);
