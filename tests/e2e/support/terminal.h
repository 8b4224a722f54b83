/*
 * terminal - one kvferry command in the foreground of a terminal of its own (a pseudo-terminal), which a
 * test types on and reads from.
 *
 * All functions assert (Criterion) on anything unexpected, and on waiting for over COMMAND_LIMIT_NS.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct terminal {
    int master; /* -1: the terminal has gone */
    pid_t pid;
    size_t n;
    char text[65536]; /* all that it showed */
};

/* words: without the program's name, a NULL last. */
void terminal_start(struct terminal *terminal, const char *const *words);
/* "\003" is Ctrl-C, "\004" Ctrl-D. */
void terminal_type(struct terminal *terminal, const char *keys);
/* Until it shows that. */
void terminal_wait(struct terminal *terminal, const char *part);
/* What it has shown by now, if anything. */
void terminal_read(struct terminal *terminal);
/* As if its window were closed: a hang-up. */
void terminal_close(struct terminal *terminal);
/* The wait status. */
int terminal_finish(struct terminal *terminal);
