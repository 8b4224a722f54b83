/*
 * role - how the main of each role begins: configuration, --check-config, what is not known.
 *
 * A role describes itself in a constant struct; its main calls role_begin and, unless that ends the
 * process, starts. --check-config refuses what a start would refuse, on this machine, but for ports
 * that are taken, memory that is not there and what only the weights' bytes tell.
 *
 * Thread: main.
 */
#pragma once

#include "base/config/config.h"
#include "process/process.h"

struct role {
    const struct config_table *(*table)(void);
    /* From the table's struct. */
    void (*fill_options)(const void *values, struct process_options *options_out);
    /* What the role itself refuses: its rows, and folder, the model's. */
    enum status (*check)(const void *values, const char *folder, struct error *error);
    /* Prints what a start would build and take (--dry-run). Fails with a sentence where it does not fit;
     * the table is printed all the same. */
    enum status (*plan)(const void *values, const char *folder, FILE *out, struct error *error);
};

/* Loads the configuration into values_out, the table's struct, and answers --help and its like. True:
 * *exit_out says how the process ends now; else *config_out is the caller's, and has one positional
 * argument, the model's folder. */
bool role_begin(const struct role *role, const struct config_input *input, void *values_out,
                struct config **config_out, int *exit_out);

/* --check-config of a role with these arguments, without a word. */
MUST_CHECK enum status role_check(const struct role *role, const struct config_input *input,
                                  struct error *error);
/* --dry-run of it. */
MUST_CHECK enum status role_plan(const struct role *role, const struct config_input *input,
                                 FILE *out, struct error *error);
