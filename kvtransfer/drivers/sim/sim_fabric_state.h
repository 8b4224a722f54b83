/*
 * sim_fabric_state - what a simulated network holds, and what its endpoints do with it.
 *
 * Thread: the fabric's.
 */
#pragma once

#include "base/random.h"
#include "kvtransfer/drivers/sim/sim_fabric.h"
#include "kvtransfer/drivers/sim/sim_messages.h"

enum { SIM_CUTS_MAX = 64 };

struct sim_transport;

struct sim_endpoint {
    struct sim_fabric *fabric;
    struct sim_endpoint *next;
    struct sim_transport *transport; /* whose endpoint it is */
    uint32_t place;
    uint64_t incarnation;
    bool is_dead;
    uint64_t stalled_until_ns;
    uint64_t link_free_ns;        /* when what it sends has left */
    struct sim_messages messages; /* on their way to it */
};

struct sim_fabric {
    struct sim_options options;
    struct random random;
    struct sim_endpoint *endpoints;
    uint64_t now_ns, sequence;
    uint32_t n_messages;
    uint64_t n_lost;
    uint32_t cuts[SIM_CUTS_MAX][2], n_cuts;
};

/* Its place is free: the endpoint that had it is dead. */
void sim_fabric_add(struct sim_fabric *fabric, struct sim_endpoint *endpoint);
void sim_fabric_remove(struct sim_endpoint *endpoint);
/* NULL: nobody that is alive is there. */
struct sim_endpoint *sim_fabric_find(const struct sim_fabric *fabric, uint32_t place);
bool sim_fabric_is_cut(const struct sim_fabric *fabric, uint32_t a, uint32_t b); /* places */

/* Draws, if there is something to draw: probability > 0, max_ns > 0. */
bool sim_fabric_happens(struct sim_fabric *fabric, double probability);
uint64_t sim_fabric_delay(struct sim_fabric *fabric, uint64_t max_ns);

/* Over the network; bytes: how many the link has to send. Takes over what the message owns. */
void sim_fabric_send(struct sim_endpoint *from, uint32_t to_place, struct sim_message message,
                     uint64_t bytes);
/* Not over the network: the endpoint gets it when it is due. Takes over what the message owns. */
void sim_fabric_push(struct sim_endpoint *to, struct sim_message message);
/* There is one; the caller owns its bytes. */
struct sim_message sim_fabric_pop(struct sim_endpoint *from);
