/*
 * sim_fabric - a network of many workers in one process, in virtual time, from a seed.
 *
 * A message takes latency + bytes / bandwidth + a random delay, so messages overtake each other. It may be lost, doubled or
 * damaged. Virtual time is the greatest now_ns that the progress of any endpoint was called with.
 *
 * The same seed and the same calls give the same events. Only what the options ask for is random.
 *
 * Bound: messages_max under way; more are lost and counted.
 * Thread: one for the whole fabric.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_fabric;

struct sim_options {
    uint64_t seed;
    uint64_t latency_ns;   /* of each message */
    uint64_t jitter_ns;    /* 0 .. this on top */
    uint64_t bytes_per_s;  /* 0: no limit */
    uint64_t detect_ns;    /* from a kill until its peers are told */
    uint64_t close_ns;     /* that peer_close takes */
    double loss;           /* probability that a message is lost */
    double duplicate;      /* that a piece arrives a second time, later */
    double corrupt;        /* that a piece's bytes are damaged and nobody but a digest can tell */
    uint32_t messages_max; /* 0: 65,536 */
};

MUST_CHECK enum status sim_fabric_create(const struct sim_options *options,
                                         struct sim_fabric **fabric_out);
/* After all its transports were closed. NULL is fine. */
void sim_fabric_destroy(struct sim_fabric *fabric);
/* When the next message or the next end of a close is due. UINT64_MAX: nothing is under way. */
uint64_t sim_fabric_next_ns(const struct sim_fabric *fabric);
/* Applies to new messages only. seed is ignored. */
void sim_fabric_set_options(struct sim_fabric *fabric, const struct sim_options *options);

/* Cuts the link between two endpoints. All messages on it are lost, and nobody is told. */
void sim_fabric_cut(struct sim_fabric *fabric, uint32_t place_a, uint32_t place_b, bool cut);
