/*
 * serve_parts - a run of `kvferry serve` inside: the command (serve.c) and its children (serve_children.c).
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

#define WORKERS_MAX    16 /* of one role: the bound of its row */
#define CHILDREN_MAX   (1 + 2 * WORKERS_MAX)
#define LIST_BYTES_MAX (WORKERS_MAX * ADDRESS_TEXT_MAX)

struct serve {
    struct serve_config config;
    struct config *loaded;
    const char *folder;        /* of the model */
    char work[CHILD_PATH_MAX]; /* of the ports files */
    struct serve_key key;
    int forced_by;       /* the second signal; 0: none */
    bool has_ports_file; /* written, and so to be removed */
    uint64_t began_ns;
    struct child router;
    struct child contexts[WORKERS_MAX];
    struct child generations[WORKERS_MAX];
    struct revival revivals[CHILDREN_MAX]; /* as serve_children_at counts them; so the next */
    struct port_hold holds[CHILDREN_MAX];  /* from an end to the next service */
};

typedef bool (*child_test)(struct child *child);

bool serve_child_has_ended(struct child *child);
bool serve_child_has_failed(struct child *child);
/* By its ports file, which is read. */
bool serve_child_is_ready(struct child *child);

/* Workers, then the router with their addresses; returns when all are ready and the router has seen them, or has had the
 * time for it. CANCELLED: a signal. */
MUST_CHECK enum status serve_children_start(struct serve *serve, struct error *error);
/* One that does not run: again, at its ports. What fails is logged. */
void serve_children_revive(struct serve *serve, struct child *child);
/* The router first, then the workers together; a signal meanwhile ends all at once, and is serve->forced_by. */
void serve_children_stop(struct serve *serve);

uint32_t serve_children_n(const struct serve *serve);
/* The router, contexts, generations. */
struct child *serve_children_at(struct serve *serve, uint32_t index);
/* IO_FAILED: test holds for a child that was started. */
MUST_CHECK enum status serve_children_check(struct serve *serve, child_test test,
                                            struct error *error);
/* Their control addresses, with commas between. */
void serve_children_list(const struct child *children, uint32_t n, char list_out[LIST_BYTES_MAX]);
