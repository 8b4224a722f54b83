/*
 * ucx_setup - UCX's context and worker, as ucx_options.h says.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_options.h"
#include "kvtransfer/drivers/ucx/ucx_state.h"

/* Fills context, worker, descriptors and worker_address. What was made before a failure stays for ucx_tear_down. */
MUST_CHECK enum status ucx_set_up(struct ucx_transport *transport,
                                  const struct ucx_options *options, struct error *error);
/* After every endpoint is closed. Takes anything half-built. */
void ucx_tear_down(struct ucx_transport *transport);
