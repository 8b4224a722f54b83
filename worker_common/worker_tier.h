/*
 * worker_tier - the tiers behind a worker's prefix cache, as its configuration asks for them.
 *
 *     evicted -> kv_tier (thread) -> host_blocks (kv_host_memory) -> kv_files (kv_disk)
 *
 * Of `kvferry serve` each worker has its own folder in kv_disk, and its part of both sizes.
 *
 * Thread: main; worker_tier_tell the engine's.
 */
#pragma once

#include "engine/prefix_tier.h"
#include "worker_common/worker_object.h"

/* Checks the rows alone. INVALID_ARGUMENT with a sentence. */
MUST_CHECK enum status worker_tier_check(const struct worker_options *options, struct error *error);
/* Checks sizes, folder and memory, once the geometry is known; makes nothing. Statuses of kv_files.h and host_blocks.h, NO_MEMORY. */
MUST_CHECK enum status worker_tier_fits(const struct worker *worker,
                                        const struct worker_options *options, struct error *error);
/* Memory of the host that it takes at once when it opens. */
uint64_t worker_tier_bytes(const struct worker *worker, const struct worker_options *options);
/* Opens what is asked for, and sets the worker's prefix key: that of the folder, or a new one. The geometry and the context
 * are known. Statuses of kv_files.h, NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status worker_tier_open(struct worker *worker, const struct worker_options *options,
                                        struct error *error);
/* Writes what waits. The engine is gone. A zeroed one is fine. */
void worker_tier_close(struct worker *worker);

/* From now on a piece wakes the engine; NULL: nobody. */
void worker_tier_wake(const struct worker *worker, void (*wake)(void *engine), void *engine);
/* Brings the metrics up to date. */
void worker_tier_tell(struct worker *worker, const struct worker_metrics *metrics,
                      const struct prefix_tier_figures *figures);
