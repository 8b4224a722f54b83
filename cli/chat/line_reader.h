/*
 * line_reader - reads the messages that a person types on a terminal, with the editing of libedit.
 *
 * A message is one line, or several: a line that ends in a backslash continues with the next one, and a paste is one piece,
 * whatever lines it has (bracketed paste, where the terminal knows it). Messages of this and earlier chats are found with the
 * arrow keys; the history file is $XDG_STATE_HOME/kvferry/chat_history, else ~/.local/state/kvferry/chat_history, mode 0600.
 *
 * Bounds: bytes_max of one message; history_lines messages in the history.
 * Global state: the locale of characters is made UTF-8; SIGINT, SIGTERM, SIGWINCH and SIGTSTP are blocked while it reads.
 * Thread: main; one reader in a process.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum line_end {
    LINE_READ,      /* a message */
    LINE_CLOSED,    /* Ctrl-D, or the terminal has gone */
    LINE_EMPTIED,   /* Ctrl-C: what was typed is gone */
    LINE_INTERRUPT, /* Ctrl-C while nothing was typed */
    LINE_SIGNAL,    /* SIGTERM */
    LINE_TOO_LONG,  /* over bytes_max; it is gone */
    LINE_NO_MEMORY,
};

struct line_reader;

struct line_reader_options {
    const char *prompt, *more_prompt; /* of the first line, of the others */
    uint32_t history_lines;           /* 0: no file; the history is of this chat alone */
    size_t bytes_max;
};

/* Also if the history cannot be read: then *error says why, else it is unchanged. NO_MEMORY, IO_FAILED. */
MUST_CHECK enum status line_reader_create(const struct line_reader_options *options,
                                          struct line_reader **reader_out, struct error *error);
/* Writes the history file. False: it could not, and *error says why. NULL is fine. */
bool line_reader_destroy(struct line_reader *reader, struct error *error);

/* text_out: with LINE_READ, [bytes_out] of UTF-8 and a NUL; the caller frees it. */
enum line_end line_reader_read(struct line_reader *reader, char **text_out, size_t *bytes_out);
