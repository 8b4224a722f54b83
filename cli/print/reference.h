/*
 * reference - what the tables in the code say, as files: docs/reference/, man pages, completions.
 *
 * Thread: main.
 */
#pragma once

#include "cli/command.h"

#include <stdio.h>

void reference_print_config(FILE *out);
void reference_print_errors(FILE *out);
MUST_CHECK enum status reference_print_metrics(FILE *out);

/* command NULL: kvferry(1), else kvferry-COMMAND(1). */
void manual_print(const struct command *command, FILE *out);

/* shell: bash, zsh or fish. False: there is none for it. */
bool completion_print(const char *shell, FILE *out);
