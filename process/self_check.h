/*
 * self_check - checks that the gRPC threads and ports of this process still work: liveness.
 *
 * A runtime is stuck when its queue thread has made no progress for the limit (rpc_runtime_progress);
 * port_probe says when a port is dead. Each change is logged once.
 *
 * Bounds: SELF_CHECK_RUNTIMES_MAX runtimes, SELF_CHECK_PORTS_MAX ports (asserted).
 *
 * Thread: main.
 */
#pragma once

#include "base/status.h"
#include "process/ports/address.h"
#include "rpc/runtime/runtime.h"

#include <stdbool.h>
#include <stdint.h>

#define SELF_CHECK_RUNTIMES_MAX 2
#define SELF_CHECK_PORTS_MAX    5

struct self_check;

/* limit_ns: how long a thread may make no progress. */
MUST_CHECK enum status self_check_create(uint64_t limit_ns, struct self_check **check_out);
void self_check_destroy(struct self_check *check); /* NULL is fine */

/* Borrowed until the last look. */
void self_check_add_runtime(struct self_check *check, const struct rpc_runtime *runtime);
/* INVALID_ARGUMENT: the address cannot be resolved. */
MUST_CHECK enum status self_check_add_port(struct self_check *check, const struct address *bound,
                                           struct error *error);

bool self_check_is_live(struct self_check *check, uint64_t now_ns);
