/*
 * reference - prints the tables of the code as docs/reference/, man pages and completions.
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

/* shell: bash, zsh or fish. False: another shell. */
bool completion_print(const char *shell, FILE *out);
