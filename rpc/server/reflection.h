/*
 * reflection - grpc.reflection.v1 and v1alpha, answered from an embedded FileDescriptorSet.
 *
 * Lists the services it was created with. A file is answered with the whole closure of its imports.
 * What is not found is a message with error code 5, not the end of the stream.
 *
 * Thread: any after creation; nothing changes.
 */
#pragma once

#include "base/status.h"
#include "rpc/server/service.h"

#include <stddef.h>
#include <stdint.h>

struct rpc_reflection;

/* set (borrowed, for the life of the object): a serialized FileDescriptorSet with imports.
 * services: the names to list; copied. CORRUPT: the set cannot be read. */
MUST_CHECK enum status rpc_reflection_create(const uint8_t *set, size_t n_set,
                                             const struct rpc_service *services, size_t n_services,
                                             struct rpc_reflection **reflection_out);
void rpc_reflection_destroy(struct rpc_reflection *reflection); /* NULL is fine */

/* The rows for a server's table of services: v1, v1alpha. */
void rpc_reflection_services(struct rpc_reflection *reflection, struct rpc_service services_out[2]);
