/* key - the command that makes a file with a new cluster key. */
#include "cli/command.h"
#include "rpc/auth/key_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status make(const char *path, struct error *error)
{
    struct key_set keys;
    TRY(key_set_draw(&keys, error));
    enum status status = key_file_make(path, &keys, error);
    key_set_wipe(&keys);
    return status;
}

int key_main(const struct config_input *input)
{
    const char *argument = input->argc > 0 ? input->argv[0] : NULL;
    struct error error = {""};
    if (argument && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)) {
        printf("usage: %s %s\n\n%s\n\nExamples\n%s", input->command, input->usage, input->help,
               input->examples);
        return EXIT_SUCCESS;
    }
    if (input->argc != 1 || !argument || !argument[0] || argument[0] == '-') {
        fprintf(stderr, "%s: takes one FILE\n", input->command);
        return CONFIG_EXIT_MISUSED;
    }
    enum status status = make(argument, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", input->command, error.text);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
