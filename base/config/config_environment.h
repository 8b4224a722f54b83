/*
 * config_environment - the names of a config table's rows, and the variables that no row has.
 *
 * For config.c alone; what others need of it is in config.h.
 *
 * Thread: any; config_environment_forget before there are others.
 */
#pragma once

#include "base/config/config.h"
#include "base/config/nearest.h"

#define ENVIRONMENT_PREFIX "KVFERRY_"
#define CONFIG_VARIABLE    ENVIRONMENT_PREFIX "CONFIG"
#define STRICT_VARIABLE    ENVIRONMENT_PREFIX "STRICT_ENVIRONMENT"

/* Whether text, with - or _ between its words, is that key. */
bool config_is_key(const char *text, size_t length, const char *key);
/* What a person may have meant instead of nearest's text: keys and aliases. */
void config_offer_rows(const struct config_table *table, struct nearest *nearest);

/* The value of that variable, borrowed; NULL: it is not set. */
const char *config_environment_find(char *const *environment, const char *name);
/* The next "KVFERRY_X=value", from index *at_inout, that no command knows; *at_inout moves on behind it.
 * NULL: none is left. A Kubernetes link is known by the others of its set. */
const char *config_environment_unknown(char *const *environment, size_t *at_inout,
                                       const struct config_program *program);
/* A sentence about it, with what may have been meant: own's variables first. */
void config_environment_describe(const char *variable, const struct config_table *own,
                                 const struct config_program *program, struct error *sentence_out);
/* See config_forget_environment. */
void config_environment_forget(const struct config_table *own,
                               const struct config_program *program);
