/*
 * message_check - reads the messages of a chat from JSON of a file, and says what is wrong with it.
 *
 * Accepted are {"messages": [...]} and the list alone. A message has a role, and content that is a text, null or a list of text
 * parts; the parts become one text. U+0000 is a character like any other.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

/* file: its name in sentences. The caller owns *messages_out, a list. CORRUPT, UNSUPPORTED: the sentence has the member and its
 * value. NO_MEMORY. */
MUST_CHECK enum status messages_parse(const char *text, size_t bytes, const char *file,
                                      json_t **messages_out, struct error *error);
