/*
 * serve_arguments - what `kvferry serve` gives its children on their command lines, and whether they
 * would start with it.
 *
 * A worker's ports are free ones of the loopback. Every row that the role's table has, too, is
 * handed on (serve_hands_on), whatever its value, so that nothing in a child is decided elsewhere.
 *
 * Thread: main.
 */
#pragma once

#include "cli/serve/child.h"
#include "cli/serve/serve_config.h"

#include <stdio.h>

/* role: "ctx-worker". What was added is the caller's to finish, after a failure too. NO_MEMORY. */
MUST_CHECK enum status serve_worker_arguments(const struct serve_config *values, const char *folder,
                                              const char *role, const struct config_table *table,
                                              struct child_arguments *arguments);
/* contexts, generations: lists of control addresses. */
MUST_CHECK enum status serve_router_arguments(const struct serve_config *values, const char *folder,
                                              const char *contexts, const char *generations,
                                              struct child_arguments *arguments);

/* Of a process that is started again: the ports of its first life where it could choose. After the others. */
MUST_CHECK enum status serve_port_arguments(const struct serve_config *values, bool is_router,
                                            const struct ports *ports,
                                            struct child_arguments *arguments);

/* What serve itself refuses. */
MUST_CHECK enum status serve_rows_check(const struct serve_config *values, struct error *error);
/* And what the roles would refuse that serve would start for folder. */
MUST_CHECK enum status serve_check(const struct serve_config *values, const char *folder,
                                   struct error *error);
/* Prints the plan of each role, as role.h has it. */
MUST_CHECK enum status serve_plan(const struct serve_config *values, const char *folder, FILE *out,
                                  struct error *error);
