/*
 * gbnf_rules - which rule a reference of a grammar means, and which rules are regular.
 *
 * Thread: any; no state.
 */
#pragma once

#include "text/constraint/gbnf_tree.h"

/* Sets rule, is_regular and loop of a parsed tree, and its root. *what_out: what is wrong with the rules, at *at_out in the text; NULL
 * if nothing is. NO_MEMORY. */
MUST_CHECK enum status gbnf_rules_resolve(struct gbnf_tree *tree, uint32_t *at_out,
                                          const char **what_out);
