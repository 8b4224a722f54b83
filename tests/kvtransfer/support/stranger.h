/* stranger - connections by somebody whom no worker has described. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The TCP ports at which a process listens; at most max. */
uint32_t stranger_find_ports(pid_t pid, uint16_t *ports_out, uint32_t max);

/* A connection to 127.0.0.1:port from that address of this host; -1: refused. */
int stranger_connect(const char *from, uint16_t port);
/* Sends the bytes, and waits until the other side has closed. False: it has not, within a second. */
bool stranger_is_closed(int fd, const void *bytes, size_t n_bytes);
