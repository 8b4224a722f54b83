/*
 * terminal_input - characters that a person types, and the signals that end or pause the typing.
 *
 * libedit reads through it. Bytes that are no UTF-8 become U+FFFD.
 *
 * Thread: main.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum input_event {
    INPUT_CHARACTER,
    INPUT_END,       /* the terminal has gone */
    INPUT_INTERRUPT, /* SIGINT */
    INPUT_TERM,      /* SIGTERM */
    INPUT_RESIZED,   /* SIGWINCH */
    INPUT_PAUSE,     /* SIGTSTP: the caller gives the terminal back and stops */
};

struct terminal_input {
    int signals; /* a signalfd */
    uint8_t bytes[4096];
    size_t at, n;
};

/* IO_FAILED. */
MUST_CHECK enum status terminal_input_open(struct terminal_input *input, struct error *error);
void terminal_input_close(struct terminal_input *input);
/* From begin to end SIGWINCH and SIGTSTP are blocked, beside SIGINT and SIGTERM, which always are. */
void terminal_input_begin(void);
void terminal_input_end(void);
/* Waits for it; between begin and end. SIGINT also drops what was typed and not read. */
enum input_event terminal_input_next(struct terminal_input *input, wchar_t *character_out);
