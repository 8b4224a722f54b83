/*
 * places - chooses which connection is closed for a new one when a port is full.
 *
 *     1. one that has ended and only lingers
 *     2. the oldest unproven one of an address that has many unproven ones
 *     3. if the port itself is full: of the address with most connections (more than the newcomer's has), the one
 *        without an open stream whose last call began longest ago
 *     4. the oldest unproven one of an address with at least as many connections as the newcomer's
 *     5. as 3, of an address with as many connections as the newcomer's
 *
 * A connection is proven if a call of it was served, or waits for an answer; a refused call does not count. A
 * connection with a waiting call is never chosen. An exempt address stands for many clients: 3 and 5 never close one
 * of its connections for another address.
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/relayed.h"

/* newcomer: already counts the new connection. is_full: the port is full, not only unproven_max
 * reached. NULL: no connection can be closed. */
struct relayed *places_find(const struct relayed_common *common,
                            const struct address_entry *newcomer, bool is_full);
