/*
 * worker - what both workers build before their engine: model, compute threads, forward pass, transport, pool.
 *
 * The forward pass is warmed up before there is a pool, whose size follows from what the process has by then (kv_plan.h).
 *
 * Thread: main; what it builds is handed to the engine and transfer threads, and back before unload.
 */
#pragma once

#include "worker_common/worker_object.h"

#include <stdio.h>

/* Fails with a sentence for the person who starts it; worker_unload takes what was built. */
MUST_CHECK enum status worker_load(struct worker *worker, struct process *process,
                                   const struct worker_options *options, struct error *error);
/* Refuses what worker_load would, as far as the configuration and the names and shapes of folder's
 * tensors tell: no weight is read, nothing opened. */
MUST_CHECK enum status worker_check(const struct worker_options *options,
                                    const char *control_address, struct error *error);
/* What worker_load would build and take, as a table for people, before anything is loaded (--dry-run).
 * As worker_check, and NO_MEMORY: it does not fit now; the table is printed all the same. */
MUST_CHECK enum status worker_plan(const struct worker_options *options, const char *role,
                                   const char *control_address, FILE *out, struct error *error);
/* worker is a scratch one, its device NULL, a host or a plan_device: its model without weights, geometry and numbers of blocks, and on
 * a plan_device what worker_paper_take took; the caller frees that, and destroys the model. */
MUST_CHECK enum status worker_load_shape(struct worker *worker,
                                         const struct worker_options *options, struct error *error);
/* What the device's memory is for, in the log; once the engine has its own. */
void worker_tell_memory(const struct worker *worker);
/* Of a lost device: whoever runs the worker ends the process, non-zero. NULL device (half-loaded): false. */
bool worker_is_lost(const struct worker *worker);
/* A half-loaded worker is fine, a zeroed one too. */
void worker_unload(struct worker *worker);

/* What kv_dtype comes to for weights of that type: auto is theirs. */
enum kv_dtype worker_kv_dtype(enum worker_kv_dtype wanted, enum dtype weights);

/* Of that model's KV blocks. INVALID_ARGUMENT as geometry_check says it. */
MUST_CHECK enum status worker_geometry(const struct model *model, enum worker_kv_dtype kv_dtype,
                                       uint32_t block_tokens, struct error *error,
                                       struct geometry *geometry_out);

/* The network devices of the data port, "" for all: those asked for; else the loopback alone while
 * the control port is on it, for nobody beyond this host could be told of the data port. */
const char *worker_net_devices(const char *wanted, const char *control_address);

/* What kv_transport comes to where the data port has those devices. INVALID_ARGUMENT: it would send KV
 * in clear over a network that nobody called trusted. */
MUST_CHECK enum status worker_kv_driver(const struct worker_options *options, const char *devices,
                                        enum kv_driver *driver_out, struct error *error);

/* Blocks by state, the model, the transport. */
void worker_fill_state(const struct worker *worker, const uint32_t blocks[BLOCK_STATES],
                       struct process_state *state_out);
