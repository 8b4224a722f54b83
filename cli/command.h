/*
 * command - the commands of `kvferry`: their names, help, tables and mains.
 *
 * Each main takes its arguments and the environment, and returns the exit status of the process: 0, 1
 * for a failure, CONFIG_EXIT_MISUSED for wrong arguments or configuration.
 *
 * Thread: main.
 */
#pragma once

#include "base/config/config.h"

struct command {
    const char *name;                          /* "serve" */
    const char *full_name;                     /* "kvferry serve" */
    const char *usage;                         /* see config_input */
    const char *summary;                       /* for the list of commands */
    const char *help;                          /* sentences */
    const char *examples;                      /* example lines; NULL: none */
    const struct config_table *(*table)(void); /* NULL: the command takes no flags */
    int (*run)(const struct config_input *input);
    bool is_role;
    bool is_hidden;
};

/* By index from 0, in the order shown; NULL: no more. */
const struct command *command_at(uint32_t index);
const struct command *command_find(const char *name); /* NULL: unknown */
/* Writes `; did you mean NAME?`, or nothing. */
void command_hint(const char *name, char *hint_out, size_t hint_bytes);
/* All tables, the known variables, the groups of --help. */
const struct config_program *command_program(void);
/* The input for the command's main and config_print_help. */
struct config_input command_input(const struct command *command, int argc, char *const *argv,
                                  char *const *environment);

int serve_main(const struct config_input *input);
int generate_main(const struct config_input *input);
int chat_main(const struct config_input *input);
int trace_main(const struct config_input *input);
int ps_main(const struct config_input *input);
int drain_main(const struct config_input *input);
int adapter_main(const struct config_input *input);
int check_model_main(const struct config_input *input);
int eval_main(const struct config_input *input);
int calibrate_main(const struct config_input *input);
int token_main(const struct config_input *input);
int key_main(const struct config_input *input);
int version_main(const struct config_input *input);
int completion_main(const struct config_input *input);
int reference_main(const struct config_input *input);

const struct config_table *serve_config_table(void);
const struct config_table *generate_config_table(void);
const struct config_table *chat_config_table(void);
const struct config_table *trace_config_table(void);
const struct config_table *ps_config_table(void);
const struct config_table *drain_config_table(void);
const struct config_table *adapter_config_table(void);
const struct config_table *check_model_config_table(void);
const struct config_table *eval_config_table(void);
const struct config_table *calibrate_config_table(void);
const struct config_table *token_config_table(void);

/* Loads a command's configuration, warns of unknown variables, answers --help and similar flags, and
 * removes the variables that were read from the environment of child processes. True: the process
 * ends now with *exit_out. False: the caller owns *config_out. */
bool command_configure(const struct config_table *table, const struct config_input *input,
                       void *values_out, struct config **config_out, int *exit_out);
/* The same for a command with more checks for --check-config; check may be NULL. */
typedef enum status (*command_check)(const struct config *config, const void *values,
                                     struct error *error);
bool command_configure_checked(const struct config_table *table, const struct config_input *input,
                               command_check check, void *values_out, struct config **config_out,
                               int *exit_out);
