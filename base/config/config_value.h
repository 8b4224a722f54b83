/*
 * config_value - converts one value of a config table from text to the typed member, and back.
 *
 * Thread: any; values belong to the caller.
 */
#pragma once

#include "base/config/config.h"
#include "base/status.h"

#include <stdio.h>

/* Sets the row's member in values. where: how the sentence begins, "--flag" or "file.yaml:3: key".
 * A string member borrows text. The row is no LIST. INVALID_ARGUMENT: malformed or out of range. */
MUST_CHECK enum status config_value_parse(const struct config_row *row, const char *text,
                                          void *values, const char *where, struct error *error);

/* Whether text is one of the words of a BOOL; then *out is its value. */
bool config_value_is_bool(const char *text, bool *out);

/* "8 .. 128", as a person would write it. False: the type has no range, or the row has no bounds. */
bool config_value_range(const struct config_row *row, char *text_out, size_t text_bytes);

/* As YAML; strings are quoted, secrets are "***" when they are set. */
void config_value_print(const struct config_row *row, const void *values, FILE *out);
