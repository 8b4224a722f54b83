/*
 * command - the sub-commands of `kvferry`, beside the three roles.
 *
 * Each takes its arguments and the environment, and returns the exit status of the process.
 *
 * Thread: main.
 */
#pragma once

#include "base/config.h"

#define EXIT_MISUSED 2 /* the arguments make no sense, whatever there is */

int serve_main(const struct config_input *input);
int generate_main(const struct config_input *input);
int ps_main(const struct config_input *input);
int check_model_main(const struct config_input *input);
int version_main(const struct config_input *input);

/* Loads a command's configuration and answers --help and its like. True: *exit_out says how the
 * process ends now; else *config_out is the caller's. */
bool command_configure(const struct config_table *table, const struct config_input *input,
                       void *values_out, struct config **config_out, int *exit_out);
