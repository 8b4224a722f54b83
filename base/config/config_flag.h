/*
 * config_flag - reads one argument that begins with two dashes.
 *
 * A switch is on or off: a BOOL of the table, or one of the flags without a value that every
 * command has.
 *
 * Only for config.c. Thread: any (plain data).
 */
#pragma once

#include "base/config/config.h"

struct config_flag {
    const char *name; /* after the dashes; name and value are borrowed from the argument */
    size_t name_length;
    const char *value; /* after the =; NULL without one */
};

struct config_flag config_flag_split(const char *argument);
/* Whether name is this row's key, written with - or _. */
bool config_flag_is(const struct config_flag *flag, const char *key);
bool config_flag_is_switch(const struct config_table *table, const struct config_flag *flag);
/* Whether flag is --no-x of a switch x; then *positive_out is x. */
bool config_flag_positive(const struct config_table *table, const struct config_flag *flag,
                          struct config_flag *positive_out);
/* Returns INVALID_ARGUMENT, with a suggestion, which may also be --no-x of a switch x. */
MUST_CHECK enum status config_flag_unknown(const struct config_table *table,
                                           const struct config_flag *flag, struct error *error);
