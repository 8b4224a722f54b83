#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>

bool command_configure(const struct config_table *table, const struct config_input *input,
                       void *values_out, struct config **config_out, int *exit_out)
{
    struct error error = {0};
    struct config *config = NULL;
    enum status status = config_load(table, input, values_out, &config, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", input->command, error.text);
        *exit_out = EXIT_FAILURE;
        return true;
    }
    if (config_answer(config, stdout)) {
        config_destroy(config);
        *exit_out = EXIT_SUCCESS;
        return true;
    }
    *config_out = config;
    return false;
}
