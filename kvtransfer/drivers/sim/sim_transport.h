/*
 * sim_transport - an endpoint of a simulated network: a worker that reads the memory of others.
 *
 *     reader --request--> owner: read_begin ... read_end --piece--> reader: copied, reported
 *
 * Bytes are copied out of the owner's memory at read_end, as late as a real network card may read them. A piece that no get
 * asked for is dropped and counted. Messages are delivered in order of their due time, to an endpoint in its own progress only.
 * The network (sim_fabric.h) may lose, double or damage them.
 *
 * Thread: one for the whole fabric. wake does nothing, wait returns at once.
 */
#pragma once

#include "kvtransfer/drivers/sim/sim_fabric.h"
#include "kvtransfer/transport/transport.h"

/* place stands for host and port: a restarted worker opens the same place with a new incarnation. The
 * transport that had the place before must have been killed. */
MUST_CHECK enum status sim_transport_open(struct sim_fabric *fabric, uint32_t place,
                                          uint64_t incarnation, struct transport **transport_out);

/* The process dies. Its progress does nothing from now on, and it must still be closed. Its peers are told
 * after detect_ns. Reads of its source end at close. */
void sim_transport_kill(struct transport *base);
/* The process is stopped (SIGSTOP) until until_ns. Nobody is told, and what arrives waits. progress does
 * nothing meanwhile. */
void sim_transport_stall(struct transport *base, uint64_t until_ns);
