/* tier_node - the tier of a simulated worker, whose operations take time. */
#pragma once

#include "tests/sim/cluster.h"

/* is_paged: its KV manager shares blocks. The disk is made at the first start. */
void tier_node_start(struct worker_node *worker, const struct geometry *geometry, bool is_paged);
uint64_t tier_node_limit_ns(const struct worker_node *worker); /* of a request's wait */
/* One operation, if it is time. False: none was done. */
bool tier_node_run(struct worker_node *worker);
/* Adds what this life did to the totals. */
void tier_node_collect(struct worker_node *worker, const struct prefix_tier_figures *figures);
