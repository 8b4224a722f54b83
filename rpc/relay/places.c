#include "rpc/relay/places.h"

#include <assert.h>

#define MANY_UNPROVEN 8 /* an address has many if it has more than this fraction of unproven_max */

static struct relayed *find_lingering(const struct relayed_common *common)
{
    struct relayed *relayed = common->first;
    while (relayed && (relayed->state != RELAYED_LINGER || relayed->farewell_bytes > 0))
        relayed = relayed->next;
    return relayed;
}

/* The oldest unproven connection of an address with many, so that a flood replaces its own
 * connections. */
static struct relayed *find_of_crowd(const struct relayed_common *common)
{
    uint32_t n_many = common->session.limits->unproven_max / MANY_UNPROVEN;
    struct relayed *relayed = common->oldest_unproven;
    while (relayed && relayed->session.address->n_unproven <= n_many)
        relayed = relayed->next_unproven;
    return relayed;
}

/* The oldest unproven connection of an address that has at least as many connections as the
 * newcomer's. */
static struct relayed *find_unproven(const struct relayed_common *common,
                                     const struct address_entry *newcomer)
{
    struct relayed *relayed = common->oldest_unproven;
    while (relayed && relayed->session.address->n_connections < newcomer->n_connections)
        relayed = relayed->next_unproven;
    return relayed;
}

static bool is_idle(const struct relayed *relayed)
{
    return relayed->state == RELAYED_OPEN && relayed->session.streams.n == 0;
}

static bool is_before(const struct relayed *one, const struct relayed *other)
{
    uint32_t n = one->session.address->n_connections;
    uint32_t n_other = other->session.address->n_connections;
    return n > n_other || (n == n_other && one->session.called_ns < other->session.called_ns);
}

/* An idle connection of an address with at least n_min connections. */
static struct relayed *find_idle(const struct relayed_common *common,
                                 const struct address_entry *newcomer, uint32_t n_min)
{
    struct relayed *found = NULL;
    for (struct relayed *relayed = common->first; relayed; relayed = relayed->next) {
        const struct address_entry *address = relayed->session.address;
        if (is_idle(relayed) && address->n_connections >= n_min &&
            (!address->is_exempt || newcomer->is_exempt) && (!found || is_before(relayed, found)))
            found = relayed;
    }
    return found;
}

struct relayed *places_find(const struct relayed_common *common,
                            const struct address_entry *newcomer, bool is_full)
{
    assert(newcomer->n_connections > 0);
    struct relayed *found = is_full ? find_lingering(common) : NULL;
    if (!found)
        found = find_of_crowd(common);
    if (!found && is_full)
        found = find_idle(common, newcomer, newcomer->n_connections + 1);
    if (!found)
        found = find_unproven(common, newcomer);
    if (!found && is_full)
        found = find_idle(common, newcomer, newcomer->n_connections);
    return found;
}
