/*
 * router_node - the router of a simulated cluster, and its clients: asks, listens, and judges every
 * token and every end.
 */
#pragma once

#include "tests/sim/cluster.h"

void router_node_start(struct cluster *cluster); /* creates the core, names the workers */
void router_node_finish(struct cluster *cluster);
/* The router's list has it, or has it no more; not having, or no more, it already is fine. A core that is full takes it
 * at a later look. */
void router_node_join(struct cluster *cluster, uint32_t node);
void router_node_leave(struct cluster *cluster, uint32_t node);
void router_node_look(struct cluster *cluster);
/* Whose attempt has that id; the latest if there were several. */
struct client *router_node_client_of(struct cluster *cluster, const char *request_id);
/* Prepares the client and adds its arrival and its cancel to the timeline. */
void router_node_add_client(struct cluster *cluster, uint32_t index);
