/*
 * adapter_list - the adapters that requests may name, of what generation workers have told.
 *
 * Two workers may have different adapters under one name, as while one is replaced by a later one: requests get the one of a worker
 * that is ready.
 *
 * Thread: any; no state.
 */
#pragma once

#include "process/process_state.h"

struct adapter_teller {
    const struct model_card *card; /* what the worker told last */
    bool is_ready;
};

/* Sets the adapters of card, each name once: first those of workers that are ready, then those of others with its model, which may come
 * back. Other workers' models are left out. No more than ADAPTERS_MAX. */
void adapter_list_make(const struct adapter_teller *tellers, uint32_t n, struct model_card *card);
