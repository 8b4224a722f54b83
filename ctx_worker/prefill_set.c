#include "ctx_worker/prefill_set.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status prefill_set_init(struct prefill_set *set, const struct prefill_home *home)
{
    assert(!set->prefills && home->options->slots_max > 0);
    set->prefills = calloc(home->options->slots_max, sizeof *set->prefills);
    if (!set->prefills)
        return STATUS_NO_MEMORY;
    set->n = home->options->slots_max;
    for (uint32_t i = 0; i < set->n; i++)
        TRY(prefill_init(&set->prefills[i], home));
    return STATUS_OK;
}

void prefill_set_finish(struct prefill_set *set, const struct prefill_home *home)
{
    for (uint32_t i = 0; i < set->n; i++)
        prefill_finish(&set->prefills[i], home);
    free(set->prefills);
    *set = (struct prefill_set){0};
}

/* ---- finding ---- */

struct prefill *prefill_set_find_free(const struct prefill_set *set)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->prefills[i].state == PREFILL_FREE)
            return &set->prefills[i];
    return NULL;
}

struct prefill *prefill_set_find_request(const struct prefill_set *set, const char *request_id)
{
    uint64_t id_hash = engine_request_id_hash(request_id);
    for (uint32_t i = 0; i < set->n; i++)
        if (prefill_is_live(&set->prefills[i]) &&
            engine_request_is_named(&set->prefills[i].prompt->request, request_id, id_hash))
            return &set->prefills[i];
    return NULL;
}

struct prefill *prefill_set_find_stream(const struct prefill_set *set, const void *stream)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (prefill_is_live(&set->prefills[i]) && set->prefills[i].prompt->request.stream == stream)
            return &set->prefills[i];
    return NULL;
}

struct prefill *prefill_set_find_scheduled(const struct prefill_set *set, uint32_t schedule_id)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (prefill_is_live(&set->prefills[i]) && set->prefills[i].schedule_id == schedule_id)
            return &set->prefills[i];
    return NULL;
}

struct prefill *prefill_set_find_held(const struct prefill_set *set, uint64_t held_number)
{
    assert(held_number != 0);
    for (uint32_t i = 0; i < set->n; i++)
        if (set->prefills[i].held_number == held_number)
            return &set->prefills[i];
    return NULL;
}

struct prefill *prefill_set_find_closing(const struct prefill_set *set,
                                         const struct transfer_id *id)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->prefills[i].state == PREFILL_CLOSING &&
            memcmp(&set->prefills[i].id, id, sizeof *id) == 0)
            return &set->prefills[i];
    return NULL;
}

/* ---- all of them ---- */

uint64_t prefill_set_next_limit_ns(const struct prefill_set *set)
{
    uint64_t next_ns = DEADLINE_NONE;
    for (uint32_t i = 0; i < set->n; i++)
        if (prefill_is_live(&set->prefills[i]) && set->prefills[i].lease_limit_ns < next_ns)
            next_ns = set->prefills[i].lease_limit_ns;
    return next_ns;
}

uint64_t prefill_set_n_left(const struct prefill_set *set)
{
    uint64_t n_left = 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (set->prefills[i].state == PREFILL_COMPUTING)
            n_left += prefill_n_left(&set->prefills[i]);
    return n_left;
}

void prefill_set_count(const struct prefill_set *set, struct ctx_engine_stats *stats)
{
    stats->computing = stats->sealed = stats->closing = 0;
    stats->computing_tokens = stats->computed_tokens = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct prefill *prefill = &set->prefills[i];
        stats->computing += prefill->state == PREFILL_COMPUTING;
        stats->sealed += prefill->state == PREFILL_SEALED;
        stats->closing += prefill->state == PREFILL_CLOSING;
        if (prefill->state != PREFILL_COMPUTING)
            continue;
        stats->computing_tokens += prefill->prompt->request.n_tokens;
        stats->computed_tokens += prefill->n_computed;
    }
    assert(stats->computing + stats->sealed + stats->closing <= set->n);
}

void prefill_set_own(const struct prefill_set *set, struct block_owners *owners)
{
    for (uint32_t i = 0; i < set->n; i++) {
        const struct prefill *prefill = &set->prefills[i];
        assert((prefill->table.n_blocks > 0) == prefill_is_live(prefill));
        assert(prefill->n_fenced == 0 || prefill->state == PREFILL_CLOSING);
        block_owners_add_table(owners, &prefill->table);
        block_owners_add(owners, prefill->crossed, prefill->n_fenced);
    }
}
