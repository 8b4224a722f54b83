/*
 * last_words - how a process ends when it cannot end in order: its log is written, and it does end.
 *
 * Global state: signal handlers, and whether the process is starting.
 * Thread: main.
 */
#pragma once

#include <stdbool.h>

/* From now on a crash or an abort, a library's too, first lets the log write what it has. Then it ends
 * the process as ever. */
void last_words_init(void);
/* While it is so, a crash, an abort or a limit that has passed is a failed start, which is said. */
void last_words_starting(bool is_starting);

/* The process ends with EXIT_FAILURE when it has not ended by itself, or set another limit, within
 * that time; 0: no limit. Libraries whose threads could not be started hang, in their start or when
 * they are shut down. */
void last_words_limit(unsigned seconds);
