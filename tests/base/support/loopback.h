/* loopback - a connection to a port of this host, by the family that is asked for. */
#pragma once

#include <stdint.h>

/* family: AF_INET, AF_INET6. -1: refused. The caller closes. */
int loopback_connect(int family, uint16_t port);
