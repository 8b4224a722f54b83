/*
 * serve_parts - the inside of `kvferry serve`: the command (serve.c) and its children (serve_children.c).
 *
 * Thread: main.
 */
#pragma once

#include "cli/serve/child.h"
#include "cli/serve/port_hold.h"
#include "cli/serve/revival.h"
#include "cli/serve/serve_config.h"
#include "cli/serve/serve_key.h"

#include <stdbool.h>
#include <stdint.h>

#define WORKERS_MAX    16 /* of one role: the maximum of its row */
#define CHILDREN_MAX   (1 + 2 * WORKERS_MAX)
#define LIST_BYTES_MAX (WORKERS_MAX * ADDRESS_TEXT_MAX)

struct serve {
    struct serve_config config;
    struct config *loaded;
    const char *folder;        /* the model's folder */
    char work[CHILD_PATH_MAX]; /* the folder of the ports files */
    struct serve_key key;
    int forced_by;       /* the second signal; 0: none */
    bool has_ports_file; /* it was written and must be removed */
    uint64_t began_ns;
    struct child router;
    struct child contexts[WORKERS_MAX];
    struct child generations[WORKERS_MAX];
    struct revival revivals[CHILDREN_MAX]; /* indexed as serve_children_at; so are holds */
    struct port_hold holds[CHILDREN_MAX];  /* from the end of a child until it serves again */
};

typedef bool (*child_test)(struct child *child);

bool serve_child_has_ended(struct child *child);
bool serve_child_has_failed(struct child *child);
/* Reads its ports file. */
bool serve_child_is_ready(struct child *child);

/* Starts the workers, then the router with their addresses. Returns when all are ready and the router has seen them, or
 * its time is over. CANCELLED: a signal. */
MUST_CHECK enum status serve_children_start(struct serve *serve, struct error *error);
/* Starts an ended child again, at its old ports. Logs failures. */
void serve_children_revive(struct serve *serve, struct child *child);
/* Stops the router first, then all workers together. A signal meanwhile ends all at once and is stored in
 * serve->forced_by. */
void serve_children_stop(struct serve *serve);

uint32_t serve_children_n(const struct serve *serve);
/* The router, context workers, generation workers. */
struct child *serve_children_at(struct serve *serve, uint32_t index);
/* IO_FAILED: test is true for a started child. */
MUST_CHECK enum status serve_children_check(struct serve *serve, child_test test,
                                            struct error *error);
/* Their control addresses, separated by commas. */
void serve_children_list(const struct child *children, uint32_t n, char list_out[LIST_BYTES_MAX]);
