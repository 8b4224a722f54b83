/*
 * runtime_queue - the inside of a runtime: tags, batches and ticks. Includes gRPC; for rpc/ only.
 *
 * A tag is embedded in the call object that its batch belongs to, one for each batch that can be
 * outstanding, and comes back exactly once on the queue thread.
 */
#pragma once

#include "rpc/arena.h"
#include "rpc/runtime/runtime.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_tag {
    /* is_ok false: the operation did not happen (peer gone, shutdown). */
    void (*done)(struct rpc_tag *tag, bool is_ok);
    void *owner;
};

/* Called every RPC_TICK_MS on the queue thread, for limits in time. */
#define RPC_TICK_MS 200

struct rpc_tick {
    void (*fn)(void *owner, uint64_t now_ns);
    void *owner;
    struct rpc_tick *next;
};

grpc_completion_queue *rpc_queue(struct rpc_runtime *runtime);
/* Memory of the message being handled; for the queue thread only. */
struct rpc_arena *rpc_queue_arena(struct rpc_runtime *runtime);

/* Starts a batch; its tag will come. Whatever the caller wrote before is seen by the tag's
 * function. Asserts that gRPC takes the batch: a refusal is a mistake of ours. */
void rpc_queue_start(struct rpc_runtime *runtime, grpc_call *call, const grpc_op *operations,
                     size_t n_operations, struct rpc_tag *tag);
/* For tags handed to gRPC otherwise: makes writes before it visible to the tag's function. */
void rpc_queue_publish(struct rpc_runtime *runtime);

void rpc_queue_add_tick(struct rpc_runtime *runtime, struct rpc_tick *tick);
/* After it returned, tick->fn does not run any more. */
void rpc_queue_remove_tick(struct rpc_runtime *runtime, struct rpc_tick *tick);
