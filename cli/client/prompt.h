/*
 * prompt - the text that `kvferry generate` sends: its argument, a file, or standard input.
 *
 * Standard input is read if the argument or the file is "-", or if neither is given and it is not a
 * terminal. One line feed at the end of a file or of standard input is not part of the prompt (as with
 * $(...), but only one: a prompt that must end with a line feed has two). U+0000 is a character like
 * any other.
 *
 * Bounds: PROMPT_BYTES_MAX, the room in a message to the server. No more is read.
 * Thread: main.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PROMPT_BYTES_MAX 8000000u

struct prompt {
    uint8_t *data; /* the caller owns and frees it */
    size_t bytes;
};

struct prompt_source {
    const char *argument; /* NULL: none */
    const char *file;     /* from --prompt-file; "": none */
};

/* INVALID_ARGUMENT: no prompt, or two. IO_FAILED, NO_MEMORY; PROMPT_TOO_LONG; CORRUPT: it is empty, or not UTF-8 (the
 * sentence has the byte). */
MUST_CHECK enum status prompt_take(const struct prompt_source *source, struct prompt *prompt_out,
                                   struct error *error);
