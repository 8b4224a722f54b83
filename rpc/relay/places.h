/*
 * places - which connection of a full port gives its place to a new one.
 *
 *     1. one that has ended, and only lingers
 *     2. of an address that has many unproven ones, the oldest of those
 *     3. where the port itself is full: of the address that has most connections, more than the newcomer's, the one
 *        without an open stream whose last call began longest ago
 *     4. the oldest unproven one of an address with as many at least
 *     5. as 3, of an address with as many as the newcomer's
 *
 * Proven is who was served, or waits for an answer: a call that is refused proves nothing. Who waits is never chosen.
 * An exempt address stands for many clients: 3 and 5 take none of its connections for another's.
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/relayed.h"

/* newcomer: counts already. is_full: the port, not its unproven connections. NULL: nobody gives way. */
struct relayed *places_find(const struct relayed_common *common,
                            const struct address_entry *newcomer, bool is_full);
