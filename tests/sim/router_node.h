/*
 * router_node - the router of a simulated cluster, and its clients: asks, listens, and judges every
 * token and every end.
 */
#pragma once

#include "tests/sim/cluster.h"

void router_node_start(struct cluster *cluster); /* creates the core, names the workers */
void router_node_finish(struct cluster *cluster);
/* Prepares the client and adds its arrival and its cancel to the timeline. */
void router_node_add_client(struct cluster *cluster, uint32_t index);
