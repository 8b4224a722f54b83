/*
 * module_pattern - names of modules by a regular expression, as PEFT matches them with Python's re.
 *
 * PCRE2 runs the expressions. Its syntax and Python's agree on what names of modules need. An expression is bounded in length, and
 * a match in steps.
 *
 * Thread: immutable once compiled.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#define MODULE_PATTERN_BYTES_MAX 4096u

struct module_pattern;

enum module_pattern_place {
    MODULE_PATTERN_WHOLE, /* the whole name: re.fullmatch(expression) */
    MODULE_PATTERN_END,   /* what is behind a point, or the whole: re.match((.*\.)?(expression)$) */
};

/* where: the key of adapter_config.json, for the sentences. CORRUPT: no expression. NO_MEMORY. */
MUST_CHECK enum status module_pattern_create(const char *expression,
                                             enum module_pattern_place place, const char *where,
                                             struct error *error,
                                             struct module_pattern **pattern_out);
void module_pattern_destroy(struct module_pattern *pattern); /* NULL is fine */

/* CORRUPT: it takes too many steps. */
MUST_CHECK enum status module_pattern_match(const struct module_pattern *pattern, const char *name,
                                            struct error *error, bool *matches_out);
