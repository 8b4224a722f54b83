/*
 * worker_pool - the memory for a worker's KV blocks: how large it is, and why, and the pool in it (kv_plan.h).
 *
 * Thread: main.
 */
#pragma once

#include "worker_common/worker_object.h"

/* Notes how much memory the machine has free, before this worker takes any. A worker that shares the machine with others is
 * told what was free before all of them (kv_room). IO_FAILED. */
MUST_CHECK enum status worker_note_room(struct worker *worker, const struct worker_options *options,
                                        struct error *error);
/* What the worker will take of the host's memory beside the pool, computed from shapes before anything is allocated. */
struct kv_taken worker_computed_bytes(const struct worker *worker,
                                      const struct worker_options *options);
/* What the worker has taken beside the pool, measured after the warm-up. */
struct kv_taken worker_measured_bytes(const struct worker *worker,
                                      const struct worker_options *options);
/* For the prefix cache of so many blocks, and the events of it: numbers, hashes and tokens. */
uint64_t worker_table_bytes(const struct worker *worker, const struct worker_options *options,
                            uint32_t n_blocks);
/* Sets n_blocks and table_bytes, and logs the plan. Fails as kv_plan_make does. */
MUST_CHECK enum status worker_plan_blocks(struct worker *worker,
                                          const struct worker_options *options,
                                          const struct kv_taken *taken, struct error *error);
/* For sequences: without those kept aside for a step. */
uint32_t worker_room_blocks(const struct worker *worker);
/* For so many transfers of other blocks at a time: two of the largest ones that may come, and two like the geometry's, in F32, for
 * each transfer. 0: for none. */
uint64_t worker_stage_bytes(const struct geometry *geometry, uint32_t n_transfers);
/* Tokens that the pool holds; where layers have windows, of whole contexts. */
uint64_t worker_room_tokens(const struct worker *worker);
/* Of all blocks. */
uint64_t worker_pool_bytes(const struct worker *worker);
/* The memory for a pool of so many bytes: over some transports it is read in whole pieces. */
uint64_t worker_pool_memory(const struct worker_options *options, uint64_t bytes);
/* Creates the pool and touches all its pages, so that they are this process's before it is ready. memory: the driver's own,
 * or NULL. NO_MEMORY and others, with a sentence. */
MUST_CHECK enum status worker_create_pool(struct worker *worker, void *memory, uint64_t bytes,
                                          struct error *error);
