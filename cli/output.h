/*
 * output - standard output of a command: a failed write makes the command fail.
 *
 * Thread: one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Call it before anything is printed: sets a buffer for all output of one step, because stdio does
 * not keep the errno of a write in between. */
void output_begin(void);

/* Flushes to the descriptor. False: a write failed, now or before; output_end prints the reason. */
bool output_write(const void *bytes, size_t n);

/* The same for text of a model, which is valid UTF-8: where standard output is a terminal, control characters other
 * than line feed and tab (utf8_is_control) are shown as "?", so that text cannot steer the terminal. */
bool output_write_text(const void *text, size_t n);

/* Returns the exit status of the command: the given one if all output was written. Else it prints the
 * reason and returns a failure. If the reader has closed the pipe, it prints nothing and ends as by
 * SIGPIPE. */
int output_end(const char *command, int exit_status);
