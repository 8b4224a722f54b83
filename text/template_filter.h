/*
 * template_filter - the few system calls of a process that renders templates: memory, its socket, time. Any other one kills it.
 *
 * No files, no network, no programs, no processes or threads, and no memory that is code.
 *
 * Thread: main; holds for the process.
 */
#pragma once

#include <stdbool.h>

/* From now on, and for ever. False: the kernel has no such filters. */
bool template_filter_begin(void);
