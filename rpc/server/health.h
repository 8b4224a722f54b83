/*
 * health - the standard grpc.health.v1 service: Check and Watch of named services.
 *
 * One object serves every port of a process. A name that was never set is unknown: Check answers
 * NOT_FOUND, Watch sends SERVICE_UNKNOWN and continues. Watch sends only changes.
 *
 * Bound: RPC_HEALTH_SERVICES_MAX names; Watch streams are bounded by calls_max of the method.
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
/* Destroy every server that uses it first. NULL is fine. */
void rpc_health_destroy(struct rpc_health *health);

/* The row for a server's table of services. */
struct rpc_service rpc_health_service(struct rpc_health *health);

/* service: "" is the whole process; at most 95 bytes. Ignored while draining. Asserts on more than
 * RPC_HEALTH_SERVICES_MAX names. */
void rpc_health_set(struct rpc_health *health, const char *service, bool is_serving);

/* Sets every name to NOT_SERVING for good, and ends the Watch streams after that message. A
 * server's drain calls it. */
void rpc_health_drain(struct rpc_health *health);
