/*
 * listener - whether anybody listens at an address that a call could not reach.
 *
 * Thread: any; blocks for LISTENER_LIMIT_MS an address at most.
 */
#pragma once

#include <stdbool.h>

#define LISTENER_LIMIT_MS 1000

/* What to say then; %s is the address. */
#define LISTENER_ABSENT "nobody listens at %s: is it running? `kvferry serve MODEL` starts it"

/* True: every connection is refused at once, so that nobody does. */
bool listener_is_absent(const char *address);
