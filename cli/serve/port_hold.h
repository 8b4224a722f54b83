/*
 * port_hold - reserves the ports of an ended process until it is started again.
 *
 * Without a listener, the kernel may use such a port for any outgoing connection, most likely one of a client that
 * looks for the process. A bound socket that does not listen reserves the port; servers can still bind to it
 * (SO_REUSEADDR). Ports that cannot be reserved are skipped: those of a host that is not an IPv4 address of this
 * machine, and used ones.
 *
 * Thread: one.
 */
#pragma once

#include "process/ports/ports_file.h"

#define PORT_HOLD_MAX 6

struct port_hold {
    int sockets[PORT_HOLD_MAX];
    uint32_t n;
};

/* hold is all zero. */
void port_hold_begin(struct port_hold *hold, const struct ports *ports);
/* Sets hold to all zeros. Fine if it never began. */
void port_hold_end(struct port_hold *hold);
