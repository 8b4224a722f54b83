/*
 * tool_reply - calls of tools in the JSON of a reply.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/tool_text.h"

/* An element of a delta's tool_calls: with id, type and name where the call begins. named: the function's name where the piece has none.
 * NULL: no memory, as below. */
json_t *tool_reply_delta(const struct tool_piece *piece, const char *named);
/* The tool_calls of a message: what the text has of them. */
json_t *tool_reply_calls(enum tool_mode mode, const char *named, const char *text, size_t bytes);
