/*
 * sim_transport - a network of many workers in one process, in virtual time, from a seed.
 *
 *     reader --request--> owner: read_begin ... read_end --piece--> reader: copied, reported
 *
 * Bytes leave the owner's memory at read_end, as late as a real network card may read them. Each
 * message takes latency + bytes / bandwidth + a random delay (so messages overtake each other) and
 * may be lost, doubled or damaged. A piece that arrives for no get is dropped and counted. Virtual
 * time is the greatest now_ns any progress was called with; what is due is delivered in order of
 * time, to an endpoint only in its own progress.
 *
 * Same seed and same calls: same events. Nothing is random but what options ask for.
 *
 * Bounds: messages_max in flight; beyond it they are lost (counted).
 * Thread: one for the whole fabric; wake does nothing, wait returns at once.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>

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
/* When the next message or end of a close is due; UINT64_MAX: nothing is under way. */
uint64_t sim_fabric_next_ns(const struct sim_fabric *fabric);
/* From now on; what is under way keeps its fate. seed is ignored. */
void sim_fabric_set_options(struct sim_fabric *fabric, const struct sim_options *options);

/* place stands for host and port: a restarted worker opens the same place with a new incarnation.
 * A place that is still open must have been killed. */
MUST_CHECK enum status sim_transport_open(struct sim_fabric *fabric, uint32_t place,
                                          uint64_t incarnation, struct transport **transport_out);

/* The process dies: it is never heard of again (its progress does nothing; close is still due).
 * Its peers are told after detect_ns. Reads of its source end at close. */
void sim_transport_kill(struct transport *base);
/* The process stops (SIGSTOP) until until_ns: nothing is told, what arrives waits. Its owner should
 * not call progress meanwhile; if it does, nothing happens. */
void sim_transport_stall(struct transport *base, uint64_t until_ns);
/* The link between two endpoints is cut: all on it is lost, nobody is told. */
void sim_fabric_cut(struct sim_fabric *fabric, uint32_t place_a, uint32_t place_b, bool cut);
