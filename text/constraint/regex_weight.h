/*
 * regex_weight - how many parts of a regex may be empty, at most: what a step of its automaton may take grows by its square.
 *
 * Counted: ? * { ^ $, and an alternative or a group of nothing. A class that has such characters counts them, too.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stddef.h>

#define REGEX_WEIGHT_MAX 1000 /* of one regex: 0.3 s and 75 MB to compile */

size_t regex_weight(const char *text, size_t n_bytes);
