/*
 * ucx_transport - driver am-tcp: UCX over TCP. The reader sends a pull, and the owner answers each piece with
 * one eager active message (pull_wire.h). UCX never holds a pointer into the reader's pool. Lost peers are
 * reported.
 *
 * Describe tells worker addresses. Only UCX's own data port listens.
 *
 * Process state: ucx_process.h. No fork after the first open.
 *
 * Thread: one at a time; open and close may run on another than progress if nothing else runs then.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_options.h"
#include "kvtransfer/transport/transport.h"

/* INVALID_ARGUMENT: a zero bound, no such device. UNSUPPORTED: the library is not the one of the headers. */
MUST_CHECK enum status ucx_transport_open(const struct ucx_options *options,
                                          struct transport **transport_out, struct error *error);
