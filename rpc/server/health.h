/*
 * health - the standard grpc.health.v1 service: Check and Watch of named services.
 *
 * One object serves every port of a process. A name that was never set is unknown: Check answers
 * NOT_FOUND, Watch sends SERVICE_UNKNOWN and goes on watching. Watch sends changes only.
 *
 * Bound: RPC_HEALTH_SERVICES_MAX names; watch streams by the row's calls_max.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "rpc/server/service.h"

#include <stdbool.h>

#define RPC_HEALTH_SERVICES_MAX 32
#define RPC_HEALTH_WATCHES_MAX  256

struct rpc_health;

MUST_CHECK enum status rpc_health_create(struct rpc_health **health_out);
/* Every server with it must be destroyed before. NULL is fine. */
void rpc_health_destroy(struct rpc_health *health);

/* The row for a server's table of services. */
struct rpc_service rpc_health_service(struct rpc_health *health);

/* service: "" is the whole process; at most 95 bytes. Ignored while draining. Asserts on more than
 * RPC_HEALTH_SERVICES_MAX names. */
void rpc_health_set(struct rpc_health *health, const char *service, bool is_serving);

/* Every name NOT_SERVING for good, told to the watchers; their streams end. A server's drain
 * calls it. */
void rpc_health_drain(struct rpc_health *health);
