/*
 * prompt_bar - how far a prompt's computation is, as a bar on a terminal, which is gone when the first text comes.
 *
 *     prefill [##########..............................] 512 of 2048 tokens
 *
 * Thread: one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing is shown. */
struct prompt_bar {
    bool is_open;
};

/* Whether standard error is a terminal that can erase a line. */
bool prompt_bar_is_possible(void);
/* done of all tokens; all 0: nothing. */
void prompt_bar_show(struct prompt_bar *bar, uint32_t done, uint32_t all);
/* Leaves the line as it was before the bar. Without one nothing happens. */
void prompt_bar_erase(struct prompt_bar *bar);
