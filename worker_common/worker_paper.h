/*
 * worker_paper - computes the memory that a start needs on a device with its own memory, without graphs. It allocates
 * on a plan_device in the order of a start, with the same sentences if there is no room.
 *
 * Thread: main.
 */
#pragma once

#include "worker_common/worker_forward.h"
#include "worker_common/worker_object.h"

/* worker's device is a plan_device, and its geometry is set. The memory counts there (device_bytes) until it is
 * freed. NO_MEMORY. */
MUST_CHECK enum status worker_paper_take(struct worker *worker,
                                         const struct worker_options *options,
                                         const struct worker_step *step, struct error *error);
/* Also fine after a failure, or if nothing was taken. */
void worker_paper_free(struct worker *worker);
