/*
 * watch_node - who watches the prefix cache of a simulated worker: after each step what it has collected is what the cache has, with
 * tokens that give the hashes. On some nodes it looks seldom, so that it falls behind the ring, and is told anew.
 */
#pragma once

#include "tests/sim/cluster.h"

#define WATCH_EVENTS_MAX 64u

struct watch_node;

/* The engine was made; key: its own. A worker that keeps no prefixes has none. */
void watch_node_start(struct worker_node *worker, const struct prefix_key *key);
/* After a step. */
void watch_node_look(struct worker_node *worker);
/* Before the engine is destroyed. */
void watch_node_stop(struct worker_node *worker);
