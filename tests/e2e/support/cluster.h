/*
 * cluster - a router, context workers and generation workers as real processes on loopback.
 */
#pragma once

#include "child.h"

#define WORKERS_MAX 3

struct cluster_options {
    const char *model;                  /* NULL: the demo */
    uint32_t n_contexts, n_generations; /* 0 contexts: everything is computed locally */
    uint32_t n_misfits;                 /* context workers that the router will not use */
    const char *const *both;            /* more arguments of the workers, NULL-terminated or NULL */
    const char *const *context;
    const char *const *first_context; /* of the first alone */
    const char *const *generation;
    const char *const *first_generation;
    const char *const *router;
    const char *first_context_binary, *first_generation_binary; /* NULL: the product's */
    bool is_in_turn; /* context workers are ready before generation workers start */
    bool is_cold;    /* the workers have their addresses, but are gone before the router starts */
};

struct cluster {
    char folder[128];
    struct child contexts[WORKERS_MAX], generations[WORKERS_MAX], router;
    uint32_t n_contexts, n_generations;
};

/* Returns when the router can place on all workers but the misfits; of a cold one, when its ports are open. */
void cluster_start(struct cluster *cluster, const struct cluster_options *options);
/* SIGTERM to all that runs; clean exits are asserted. Their logs are gone. */
void cluster_stop(struct cluster *cluster);
/* The two halves of it: between them are the logs. */
void cluster_end(struct cluster *cluster);
void cluster_remove(const struct cluster *cluster);
/* Waits until every running worker has nothing active, pinned, inbound or quarantined. */
void cluster_wait_quiet(struct cluster *cluster);
/* Waits until the router can place on that many workers. */
void cluster_wait_ready(struct cluster *cluster, uint32_t n_contexts, uint32_t n_generations);
