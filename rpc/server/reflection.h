/*
 * reflection - grpc.reflection.v1 and v1alpha, answers from an embedded FileDescriptorSet.
 *
 * It lists the services that it was created with. The answer for a file has all its imports, direct
 * and indirect. An unknown name gets a message with error code 5, and the stream continues.
 *
 * Thread: any after creation; nothing changes.
 */
#pragma once

#include "base/status.h"
#include "rpc/server/service.h"

#include <stddef.h>
#include <stdint.h>

struct rpc_reflection;

/* set: a serialized FileDescriptorSet with imports; borrowed until destroy. services: the names to
 * list; copied. CORRUPT: the set cannot be read. */
MUST_CHECK enum status rpc_reflection_create(const uint8_t *set, size_t n_set,
                                             const struct rpc_service *services, size_t n_services,
                                             struct rpc_reflection **reflection_out);
void rpc_reflection_destroy(struct rpc_reflection *reflection); /* NULL is fine */

/* The rows of v1 and v1alpha for a server's table of services. */
void rpc_reflection_services(struct rpc_reflection *reflection, struct rpc_service services_out[2]);
