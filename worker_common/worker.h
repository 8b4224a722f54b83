/*
 * worker - the parts that both workers build before their engine: model, compute threads, forward pass, transport,
 * pool.
 *
 * The forward pass is warmed up before the pool is allocated: the size of the pool depends on the memory of the process
 * after that (kv_plan.h).
 *
 * Thread: main; the engine and transfer threads use the parts until they end, before unload.
 */
#pragma once

#include "worker_common/worker_object.h"

#include <stdio.h>

/* Fails with a sentence for the person who starts it; call worker_unload after a failure, too. */
MUST_CHECK enum status worker_load(struct worker *worker, struct process *process,
                                   const struct worker_options *options, struct error *error);
/* Refuses what worker_load would refuse, as far as the configuration and the names and shapes of
 * folder's tensors show. Reads no weights and opens nothing. */
MUST_CHECK enum status worker_check(const struct worker_options *options,
                                    const char *control_address, struct error *error);
/* Prints a table of what worker_load would build and how much memory it needs, without loading
 * anything (--dry-run). Fails as worker_check. NO_MEMORY: it does not fit now; the table is printed
 * all the same. */
MUST_CHECK enum status worker_plan(const struct worker_options *options, const char *role,
                                   const char *control_address, FILE *out, struct error *error);
/* worker is a temporary one; its device is NULL, a host or a plan_device. Fills in its model without weights, its
 * geometry and its numbers of blocks, and on a plan_device takes memory by worker_paper_take. The caller frees that
 * memory and destroys the model. */
MUST_CHECK enum status worker_load_shape(struct worker *worker,
                                         const struct worker_options *options, struct error *error);
/* Logs the use of the device's memory; call it after the engine has allocated its part. */
void worker_tell_memory(const struct worker *worker);
/* Whether the device is lost: then the caller ends the process with a failure. False also for a NULL device
 * (half-loaded). */
bool worker_is_lost(const struct worker *worker);
/* A half-loaded worker is fine, and so is all zeros. */
void worker_unload(struct worker *worker);

#define ENCODER_TOKENS_DEFAULT 1024u

/* The longest context that is served: wanted, or for 0 the model's; with an encoder the longest text and the longest reply, for 0 at
 * most ENCODER_TOKENS_DEFAULT. INVALID_ARGUMENT: the model's is shorter. */
MUST_CHECK enum status worker_choose_context(const struct model_config *config, uint32_t wanted,
                                             struct error *error, uint32_t *tokens_out);

/* The geometry of that model's KV blocks. kv_scales: of a dtype of 8 bits; else not read. INVALID_ARGUMENT as geometry_check, and if a
 * part of a recurrent state does not fit into a block. */
MUST_CHECK enum status worker_geometry(const struct model *model, enum worker_kv_dtype kv_dtype,
                                       const struct kv_scales *kv_scales, uint32_t block_tokens,
                                       struct error *error, struct geometry *geometry_out);

/* The network devices of the data port; "": all. These are the configured ones; else only the
 * loopback if the control port is on it, as then no other host can learn the address of the data
 * port. */
const char *worker_net_devices(const char *wanted, const char *control_address);

/* The transport for kv_transport and a data port with these devices. INVALID_ARGUMENT: it would send
 * KV in clear text over a network that is not configured as trusted. */
MUST_CHECK enum status worker_kv_driver(const struct worker_options *options, const char *devices,
                                        enum kv_driver *driver_out, struct error *error);

/* Fills in the blocks by state, the model and the transport. */
void worker_fill_state(const struct worker *worker, const uint32_t blocks[BLOCK_STATES],
                       struct process_state *state_out);
