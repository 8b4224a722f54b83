/*
 * lark_terminals - how many parts of a grammar's terminals may be empty, with those of the terminals that they refer to (regex_weight).
 *
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct terminal {
    const char *name; /* borrowed; in the grammar */
    uint32_t n_name;
    uint32_t weight;
    uint32_t of; /* of a reference: the index of the definition that has it */
    size_t line;
};

struct terminal_list {
    struct terminal *items;
    uint32_t n_items, items_max;
};

struct lark_terminals {
    struct terminal_list definitions, references;
};

/* Names are borrowed until finish. A rule is a definition, too, which refers to nothing. NO_MEMORY. */
MUST_CHECK enum status lark_terminals_define(struct lark_terminals *terminals, const char *name,
                                             size_t n_name, size_t line);
MUST_CHECK enum status lark_terminals_refer(struct lark_terminals *terminals, const char *name,
                                            size_t n_name);
/* To the last definition. */
void lark_terminals_weigh(struct lark_terminals *terminals, size_t weight);

/* INVALID_ARGUMENT: one weighs more than REGEX_WEIGHT_MAX. NO_MEMORY. */
MUST_CHECK enum status lark_terminals_check(struct lark_terminals *terminals, struct error *error);
void lark_terminals_finish(struct lark_terminals *terminals);
