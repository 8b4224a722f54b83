#include "engine/refused_states.h"

/* REFUSED_STATES_MAX: it is not there. */
static uint32_t find(const struct refused_states *states, struct prefix_hash hash)
{
    for (uint32_t i = 0; i < states->n; i++)
        if (prefix_hash_equal(states->hashes[i], hash))
            return i;
    return REFUSED_STATES_MAX;
}

void refused_states_add(struct refused_states *states, struct prefix_hash hash)
{
    if (find(states, hash) < REFUSED_STATES_MAX)
        return;
    const uint32_t at = states->n < REFUSED_STATES_MAX ? states->n++ : states->next;
    states->hashes[at] = hash;
    states->next = (at + 1) % REFUSED_STATES_MAX;
}

static bool has_span(const struct kv_manager *manager, uint32_t n_groups, struct prefix_hash hash)
{
    for (uint32_t group = 0; group < n_groups; group++)
        if (kv_manager_has(manager, hash, group))
            return true;
    return false;
}

bool refused_states_has(struct refused_states *states, const struct kv_manager *manager,
                        uint32_t n_groups, struct prefix_hash hash)
{
    const uint32_t at = find(states, hash);
    if (at == REFUSED_STATES_MAX)
        return false;
    if (has_span(manager, n_groups, hash))
        return true;
    states->hashes[at] = states->hashes[--states->n];
    states->next = 0;
    return false;
}
