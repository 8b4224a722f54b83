/*
 * runtime - gRPC's library state, one completion queue, and the one thread that serves it.
 *
 * All handlers, on_end functions and client callbacks of the servers and clients on a runtime run
 * on that thread ("the queue thread") and must not block. A process has one runtime for its servers;
 * a worker that calls other processes has a second one for its client, and the router uses one for both.
 *
 * Create the first runtime after the last fork, after SIGPIPE is ignored, and after the signals
 * that main waits for are blocked: gRPC's threads inherit the mask.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct rpc_runtime;

/* thread_name: at most 15 bytes. NO_MEMORY. NO_THREAD with a sentence, also if gRPC could not start
 * its own threads. gRPC does not report that, and cannot be shut down then: the runtime stays until
 * the process ends. */
MUST_CHECK enum status rpc_runtime_create(const char *thread_name, struct error *error,
                                          struct rpc_runtime **runtime_out);

/* Destroy every server and client on it first. Not from the queue thread. NULL is fine.
 */
void rpc_runtime_destroy(struct rpc_runtime *runtime);

/* Whether the caller is the queue thread. */
bool rpc_runtime_is_current(const struct rpc_runtime *runtime);

const char *rpc_runtime_name(const struct rpc_runtime *runtime); /* the name of its thread */

/* A number that changes while the queue thread makes progress: with every event, five times a second
 * without events, and with the thread's CPU time while gRPC runs on it (which can be long in a flood
 * of connections). It does not change while a handler does not return. Any thread. */
uint64_t rpc_runtime_progress(const struct rpc_runtime *runtime);

/* How often accept failed in this process (mostly: no free descriptor). Any thread. */
uint64_t rpc_failed_accepts(void);

const char *rpc_library_version(void); /* of the loaded gRPC core */
