/*
 * config_environment - the names of the rows of a config table, and the variables that belong to no
 * row.
 *
 * Only for config.c; the public part is in config.h.
 *
 * Thread: any; config_environment_forget runs before other threads start.
 */
#pragma once

#include "base/config/config.h"
#include "base/config/nearest.h"

#define ENVIRONMENT_PREFIX "KVFERRY_"
#define CONFIG_VARIABLE    ENVIRONMENT_PREFIX "CONFIG"
#define STRICT_VARIABLE    ENVIRONMENT_PREFIX "STRICT_ENVIRONMENT"

/* Whether text is this key, written with - or _. */
bool config_is_key(const char *text, size_t length, const char *key);
/* Compares the keys and aliases with nearest's text, for "did you mean". */
void config_offer_rows(const struct config_table *table, struct nearest *nearest);

/* The value of that variable, borrowed; NULL: not set. */
const char *config_environment_find(char *const *environment, const char *name);
/* The next "KVFERRY_X=value", from index *at_inout on, that no command knows. *at_inout becomes the index after it.
 * NULL: no more. A service link of Kubernetes is recognized by the other variables of its set. */
const char *config_environment_unknown(char *const *environment, size_t *at_inout,
                                       const struct config_program *program);
/* Writes a sentence about the variable, with a suggestion; variables of own are suggested first. */
void config_environment_describe(const char *variable, const struct config_table *own,
                                 const struct config_program *program, struct error *sentence_out);
/* See config_forget_environment. */
void config_environment_forget(const struct config_table *own,
                               const struct config_program *program);
