/*
 * serve_arguments - the command lines of serve's children, and the check that they would start with
 * them.
 *
 * The ports of a worker are free ports of the loopback. Every row that the role's table also has is
 * passed on (serve_hands_on), with any value, so that no other source decides a child's
 * configuration.
 *
 * Thread: main.
 */
#pragma once

#include "cli/serve/child.h"
#include "cli/serve/serve_config.h"

#include <stdio.h>

/* role: "ctx-worker". The caller frees the arguments, also after a failure. NO_MEMORY. */
MUST_CHECK enum status serve_worker_arguments(const struct serve_config *values, const char *folder,
                                              const char *role, const struct config_table *table,
                                              struct child_arguments *arguments);
/* contexts, generations: lists of control addresses. */
MUST_CHECK enum status serve_router_arguments(const struct serve_config *values, const char *folder,
                                              const char *contexts, const char *generations,
                                              struct child_arguments *arguments);

/* For a restarted process: the ports of its first start, where it could choose. Call it after the others. */
MUST_CHECK enum status serve_port_arguments(const struct serve_config *values, bool is_router,
                                            const struct ports *ports,
                                            struct child_arguments *arguments);

/* Checks serve's own rows. */
MUST_CHECK enum status serve_rows_check(const struct serve_config *values, struct error *error);
/* Checks that the roles would start with folder. */
MUST_CHECK enum status serve_check(const struct serve_config *values, const char *folder,
                                   struct error *error);
/* Prints the plan of each role (role.h). */
MUST_CHECK enum status serve_plan(const struct serve_config *values, const char *folder, FILE *out,
                                  struct error *error);
