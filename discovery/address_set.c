#include "discovery/address_set.h"

#include <assert.h>
#include <string.h>

void address_set_clear(struct address_set *set)
{
    set->n = set->n_left_out = 0;
}

bool address_set_has(const struct address_set *set, const char *address)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (strcmp(set->addresses[i], address) == 0)
            return true;
    return false;
}

void address_set_add(struct address_set *set, const char *address)
{
    size_t bytes = strlen(address) + 1;
    assert(bytes <= ADDRESS_TEXT_MAX);
    if (address_set_has(set, address))
        return;
    assert(set->n <= PROCESS_PEERS_MAX);
    if (set->n < PROCESS_PEERS_MAX)
        memcpy(set->addresses[set->n++], address, bytes);
    else
        set->n_left_out++;
}

void address_set_add_all(struct address_set *set, const struct address_set *more)
{
    assert(set != more);
    for (uint32_t i = 0; i < more->n; i++)
        address_set_add(set, more->addresses[i]);
    set->n_left_out += more->n_left_out;
}

bool address_set_equals(const struct address_set *a, const struct address_set *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!address_set_has(b, a->addresses[i]))
            return false;
    return true;
}
