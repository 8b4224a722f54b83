/*
 * worker_paper - what a start takes of a device with memory of its own, but for graphs: taken on a plan_device, in the order of a
 * start, with the sentences of a start where there is no room.
 *
 * Thread: main.
 */
#pragma once

#include "worker_common/worker_object.h"
#include "worker_common/worker_forward.h"

/* worker's device is a plan_device, its geometry is known. Counted there (device_bytes) until free. NO_MEMORY. */
MUST_CHECK enum status worker_paper_take(struct worker *worker,
                                         const struct worker_options *options,
                                         const struct worker_step *step, struct error *error);
/* Also where less was taken, or nothing. */
void worker_paper_free(struct worker *worker);
