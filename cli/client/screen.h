/*
 * screen - a text that is drawn again and again: on a terminal in place, in a pipe one after the other.
 *
 * On a terminal a text is written at once, over the one before and without erasing it first, so that nothing flickers; what
 * does not fit the window is cut. The terminal is its user's again when the process ends, also by SIGINT or SIGTERM, which end
 * it at once.
 *
 * Global state: one screen in a process.
 * Thread: main.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As interrupt_ends. */
void screen_open(void);
/* Gives the terminal back; fine without screen_open. */
void screen_close(void);
/* False: standard output failed; output_end says why. */
bool screen_show(const char *text, size_t n);
/* Waits so long. False: the user wants the end (q, or the end of input by Ctrl-D). */
bool screen_wait(uint64_t ms);

/* The bytes that show the text in a window of so many lines and columns: cut, each line's rest erased. Columns are
 * characters. Writes at most out_bytes; returns how many. */
size_t screen_frame(const char *text, size_t n, unsigned lines, unsigned columns, char *out,
                    size_t out_bytes);
