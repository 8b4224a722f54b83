/*
 * role - how the main of each role begins: configuration, --check-config, --dry-run.
 *
 * A role has a constant struct role; its main calls role_begin and then starts, unless the process
 * must end. --check-config refuses what a start on this machine would refuse, except for used
 * ports, missing memory, and errors that only the bytes of the weights show.
 *
 * Thread: main.
 */
#pragma once

#include "base/config/config.h"
#include "process/process.h"

struct role {
    const struct config_table *(*table)(void);
    /* Reads the table's struct. */
    void (*fill_options)(const void *values, struct process_options *options_out);
    /* Checks the role's own rows and folder, the model's folder. */
    enum status (*check)(const void *values, const char *folder, struct error *error);
    /* Prints what a start would build and how much memory it would use (--dry-run). Fails with a
     * sentence if it does not fit; the table is printed all the same. */
    enum status (*plan)(const void *values, const char *folder, FILE *out, struct error *error);
};

/* Loads the configuration into values_out, the table's struct, and answers --help and similar flags.
 * True: the process ends now with *exit_out. False: the caller owns *config_out, which has one
 * positional argument, the model's folder. */
bool role_begin(const struct role *role, const struct config_input *input, void *values_out,
                struct config **config_out, int *exit_out);

/* --check-config of a role with these arguments, without output. */
MUST_CHECK enum status role_check(const struct role *role, const struct config_input *input,
                                  struct error *error);
/* --dry-run of a role. */
MUST_CHECK enum status role_plan(const struct role *role, const struct config_input *input,
                                 FILE *out, struct error *error);
