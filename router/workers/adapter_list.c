#include "router/workers/adapter_list.h"

#include <string.h>

static bool has_model_of(const struct model_card *theirs, const struct model_card *card)
{
    return theirs->has_geometry && card->has_geometry &&
           memcmp(theirs->geometry.model_digest, card->geometry.model_digest,
                  sizeof card->geometry.model_digest) == 0;
}

static void add(const struct model_card *theirs, struct model_card *card)
{
    for (uint32_t i = 0; i < theirs->n_adapters && card->n_adapters < ADAPTERS_MAX; i++)
        if (!adapter_ids_find(card->adapters, card->n_adapters, theirs->adapters[i].name))
            card->adapters[card->n_adapters++] = theirs->adapters[i];
}

void adapter_list_make(const struct adapter_teller *tellers, uint32_t n, struct model_card *card)
{
    card->n_adapters = 0;
    for (uint32_t i = 0; i < n; i++)
        if (tellers[i].is_ready)
            add(tellers[i].card, card);
    for (uint32_t i = 0; i < n; i++)
        if (!tellers[i].is_ready && has_model_of(tellers[i].card, card))
            add(tellers[i].card, card);
}
