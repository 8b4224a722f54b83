/*
 * config_flag - one argument of a command line that begins with two dashes.
 *
 * A switch is on or off: a BOOL of the table, or a flag of every command that takes no value.
 *
 * For config.c alone. Thread: any (plain data).
 */
#pragma once

#include "base/config/config.h"

struct config_flag {
    const char *name; /* behind the dashes; borrowed from the argument, as the value is */
    size_t name_length;
    const char *value; /* behind the =, NULL without one */
};

struct config_flag config_flag_split(const char *argument);
/* Whether - or _ is between its words. */
bool config_flag_is(const struct config_flag *flag, const char *key);
bool config_flag_is_switch(const struct config_table *table, const struct config_flag *flag);
/* Whether flag is --no-x of a switch x; then *positive_out is x. */
bool config_flag_positive(const struct config_table *table, const struct config_flag *flag,
                          struct config_flag *positive_out);
/* INVALID_ARGUMENT, with what may have been meant, --no-x of a switch x too. */
MUST_CHECK enum status config_flag_unknown(const struct config_table *table,
                                           const struct config_flag *flag, struct error *error);
