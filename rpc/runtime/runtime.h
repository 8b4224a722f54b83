/*
 * runtime - gRPC's library state, one completion queue, and the one thread that serves it.
 *
 * Every handler, on_end and client callback of the servers and clients made on a runtime runs on
 * that thread ("the queue thread") and must not block. A process has one runtime for its servers
 * and, when it calls others, a second one for its client.
 *
 * The first runtime must be created after the last fork, after SIGPIPE is ignored and after the
 * signals that main waits for are blocked: gRPC's threads inherit the mask.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct rpc_runtime;

/* thread_name: at most 15 bytes. NO_MEMORY; NO_THREAD with a sentence: also when gRPC could not start
 * the threads that it starts for itself; it does not say so, and can then not even be shut down: the
 * runtime is left to the end of the process. */
MUST_CHECK enum status rpc_runtime_create(const char *thread_name, struct error *error,
                                          struct rpc_runtime **runtime_out);

/* Every server and client on it must be destroyed before. Not from the queue thread. NULL is fine.
 */
void rpc_runtime_destroy(struct rpc_runtime *runtime);

/* Whether the caller is the queue thread. */
bool rpc_runtime_is_current(const struct rpc_runtime *runtime);

const char *rpc_runtime_name(const struct rpc_runtime *runtime); /* of its thread */

/* A number that moves while the queue thread makes progress: with every event and five times a second
 * without; while gRPC keeps the thread (a flood of connections can, for long), with its CPU time. A
 * handler that does not return moves nothing. Any thread. */
uint64_t rpc_runtime_progress(const struct rpc_runtime *runtime);

/* How often, in this process, a connection could not be accepted (no descriptor, mostly). Any thread. */
uint64_t rpc_failed_accepts(void);

const char *rpc_library_version(void); /* of the loaded gRPC core */
