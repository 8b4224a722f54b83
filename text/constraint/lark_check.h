/*
 * lark_check - refuses what of a Lark grammar cannot be part of a reply, and checks the JSON schemas in it.
 *
 * Refused: special tokens (<...>), which no text has; max_tokens= and stop=, whose tokens cannot be taken back. A schema after %json is
 * as any other (schema_check). A terminal of which too many parts may be empty (lark_terminals).
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>

/* text: UTF-8. INVALID_ARGUMENT: error says what is wrong, and in which line. NO_MEMORY. */
MUST_CHECK enum status lark_check(const char *text, size_t n_bytes, struct error *error);
