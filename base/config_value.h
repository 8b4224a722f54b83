/*
 * config_value - one value of a config table: from text to the typed member, and back.
 */
#pragma once

#include "base/config.h"
#include "base/status.h"

#include <stdio.h>

/* Sets the row's member in values. where starts the sentence: "--flag" or "file.yaml:3: key".
 * A string member borrows text. INVALID_ARGUMENT: malformed or out of range. */
MUST_CHECK enum status config_value_parse(const struct config_row *row, const char *text,
                                          void *values, const char *where, struct error *error);

/* As YAML; strings are quoted, secrets are "***" when they are set. */
void config_value_print(const struct config_row *row, const void *values, FILE *out);
