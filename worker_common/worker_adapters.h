/*
 * worker_adapters - the adapters that a worker is started with.
 *
 * Thread: main.
 */
#pragma once

#include "worker_common/worker_object.h"

/* Reads those of the options, and sets what the forward pass needs. The model is loaded, perhaps without weights. Fails as
 * adapter_set_add. */
MUST_CHECK enum status worker_adapters_load(struct worker *worker,
                                            const struct worker_options *options,
                                            struct error *error);
/* What those that are loaded later may take beside them. */
uint64_t worker_adapters_room(const struct worker *worker, const struct worker_options *options);
