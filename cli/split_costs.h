/*
 * split_costs - the cost of a tokenizer's split patterns for runs of one kind of character, and the
 * longest run within the limit of a text (tokenizer/pattern/split_pattern.h).
 *
 *     "split_costs": {"digits": {"steps_per_byte": 4.2, "run_bytes_max": 8192}, ...}
 *
 * run_bytes_max is 0 if no run up to SPLIT_COSTS_BYTES is too long.
 *
 * Thread: any; no state.
 */
#pragma once

#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdio.h>

#define SPLIT_COSTS_BYTES ((size_t)1 << 20)

/* NO_MEMORY. */
MUST_CHECK enum status split_costs_add(json_t *facts, const struct tokenizer *tokenizer);
/* For people: the most expensive kind, and each kind with a limit. */
void split_costs_print(const json_t *facts, FILE *out);
