/*
 * port_hold - keeps the ports of a process that has ended for its next life.
 *
 * While nobody listens, the kernel may give such a port to any connection of the machine, to one of who looks for the
 * process first of all. A socket that is bound to it, and does not listen, keeps it; servers bind beside it (SO_REUSEADDR).
 * What cannot be kept is left alone: a port of a host that is no IPv4 address of this machine, or one that is taken.
 *
 * Thread: one.
 */
#pragma once

#include "process/ports/ports_file.h"

#define PORT_HOLD_MAX 4

struct port_hold {
    int sockets[PORT_HOLD_MAX];
    uint32_t n;
};

/* hold is all zero. */
void port_hold_begin(struct port_hold *hold, const struct ports *ports);
/* All zero again. One that never began is fine. */
void port_hold_end(struct port_hold *hold);
