/*
 * output - standard output as the result of a command: what cannot be written fails the command.
 *
 * Thread: one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Before anything is printed: a buffer for all that a command prints at a time, for of a write that
 * fails in between stdio keeps no reason. */
void output_begin(void);

/* Through to the descriptor. False: it could not be, now or before; output_end says why. */
bool output_write(const void *bytes, size_t n);

/* The exit status of the command: the given one when all that was ever printed has been written. Else it
 * says why it was not and is a failure; whose reader has gone ends without a word, as if SIGPIPE had
 * ended it. */
int output_end(const char *command, int exit_status);
