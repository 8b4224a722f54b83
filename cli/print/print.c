/* print - the commands that print man pages, completions and reference pages. */
#include "cli/print/reference.h"
#include "process/ports/port_needs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_help(const struct config_input *input)
{
    return input->argc > 0 &&
           (strcmp(input->argv[0], "--help") == 0 || strcmp(input->argv[0], "-h") == 0);
}

static int print_help(const struct config_input *input)
{
    printf("usage: %s %s\n\n%s\n", input->command, input->usage, input->help);
    if (input->examples)
        printf("\nExamples\n%s", input->examples);
    return EXIT_SUCCESS;
}

static int print_metrics(const struct config_input *input)
{
    enum status status = reference_print_metrics(stdout);
    if (status == STATUS_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "%s: %s\n", input->command, status_text(status));
    return EXIT_FAILURE;
}

int completion_main(const struct config_input *input)
{
    if (is_help(input))
        return print_help(input);
    if (input->argc != 1 || !completion_print(input->argv[0], stdout)) {
        fprintf(stderr, "%s: give a shell: bash, zsh or fish\n", input->command);
        return CONFIG_EXIT_MISUSED;
    }
    return EXIT_SUCCESS;
}

int reference_main(const struct config_input *input)
{
    const char *what = input->argc > 0 ? input->argv[0] : "";
    const struct command *command = input->argc == 2 ? command_find(input->argv[1]) : NULL;
    bool is_manual = strcmp(what, "man") == 0;
    if (is_help(input))
        return print_help(input);
    if (is_manual && (input->argc == 1 || command)) {
        manual_print(command, stdout);
    } else if (input->argc == 1 && strcmp(what, "config") == 0) {
        reference_print_config(stdout);
    } else if (input->argc == 1 && strcmp(what, "errors") == 0) {
        reference_print_errors(stdout);
    } else if (input->argc == 1 && strcmp(what, "metrics") == 0) {
        return print_metrics(input);
    } else if (input->argc == 1 && strcmp(what, "ports") == 0) {
        port_needs_print(stdout);
    } else {
        fprintf(stderr, "%s: config, errors, metrics, ports, or man and a command\n",
                input->command);
        return CONFIG_EXIT_MISUSED;
    }
    return EXIT_SUCCESS;
}
