/*
 * config_parts - the private data of a loaded configuration, for config.c and the files that it uses.
 *
 * Thread: the one that loads; afterwards the configuration is read-only.
 */
#pragma once

#include "base/config/config.h"

enum action { ACTION_RUN, ACTION_HELP, ACTION_PRINT, ACTION_CHECK };

#define WARNINGS_MAX 32 /* more are not reported */

struct setting {
    char *text;   /* owned; string members of the values point here */
    char *source; /* owned */
    char **list;  /* [CONFIG_LIST_MAX] of a LIST, each owned; list members point here */
    uint32_t n_list;
    uint32_t file_line;
};

/* A flag of the command line. */
struct given {
    const struct config_row *row;
    const char *value; /* borrowed */
    char name[CONFIG_NAME_BYTES];
};

struct config {
    const struct config_table *table;
    struct config_input input;
    const void *values;
    enum action action;
    const char *file;         /* of YAML; borrowed, NULL without one */
    bool is_strict;           /* --strict-environment, or its variable */
    bool is_strictness_given; /* by the flag, which has precedence over the variable */
    struct setting settings[CONFIG_ROWS_MAX];
    struct given *given; /* [n_given] in their order */
    uint32_t n_given;
    const char **positionals;
    uint32_t n_positionals;
    const char *word_after_bool; /* "yes" of `--pin yes`, which is a positional argument; or NULL */
    const char *bool_before_it;
    struct error warnings[WARNINGS_MAX];
    uint32_t n_warnings;
};

/* Reads the command line: flags in their order, positional arguments, and switches like --help. INVALID_ARGUMENT. */
MUST_CHECK enum status config_read_arguments(struct config *config, struct error *error);
