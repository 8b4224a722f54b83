/*
 * prompt_bar - shows the progress of a prompt's computation as a bar on a terminal, until the first text arrives.
 *
 *     prefill [##########..............................] 512 of 2048 tokens
 *
 * Thread: one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All zeros: no bar is shown. */
struct prompt_bar {
    bool is_open;
};

/* Whether standard error is a terminal that can erase a line. */
bool prompt_bar_is_possible(void);
/* Shows done of all tokens; all 0: does nothing. */
void prompt_bar_show(struct prompt_bar *bar, uint32_t done, uint32_t all);
/* Erases the bar, if one is shown. */
void prompt_bar_erase(struct prompt_bar *bar);
