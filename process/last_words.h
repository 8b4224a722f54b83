/*
 * last_words - ends a process that cannot end normally: the log is written, and the process does
 * end.
 *
 * Global state: signal handlers, and whether the process is starting.
 * Thread: main.
 */
#pragma once

#include <stdbool.h>

/* From now on, at a crash or an abort, also of a library, the log is written first. Then the process ends as usual. */
void last_words_init(void);
/* While the process is starting, a crash, an abort or an exceeded limit is reported as a failed
 * start. */
void last_words_starting(bool is_starting);

/* The process ends with EXIT_FAILURE after this time, unless it has ended or set another limit
 * before; 0: no limit. Libraries hang, at their start or shutdown, if their threads could not be
 * started. */
void last_words_limit(unsigned seconds);
