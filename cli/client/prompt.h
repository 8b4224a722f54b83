/*
 * prompt - the text that `kvferry generate` sends: its argument, a file, or standard input.
 *
 * Standard input is read for the argument or the file "-", and when neither is given, unless it is a
 * terminal. Of a file and of standard input a last line feed is no part of the prompt (as with $(...),
 * but one alone: a prompt that is to end with a line feed ends with two). U+0000 is a character as any
 * other.
 *
 * Bounds: PROMPT_BYTES_MAX, what a message to the server has room for. Nothing beyond it is read.
 * Thread: main.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PROMPT_BYTES_MAX 8000000u

struct prompt {
    uint8_t *data; /* owned, and freed, by the caller */
    size_t bytes;
};

struct prompt_source {
    const char *argument; /* NULL: none */
    const char *file;     /* of --prompt-file; "": none */
};

/* INVALID_ARGUMENT: there is none, or two. IO_FAILED, NO_MEMORY; PROMPT_TOO_LONG; CORRUPT: it is empty, or no UTF-8, and at which byte. */
MUST_CHECK enum status prompt_take(const struct prompt_source *source, struct prompt *prompt_out,
                                   struct error *error);
