/*
 * runtime_queue - the inside of a runtime: tags, batches and ticks. Includes gRPC; for rpc/ only.
 *
 * A call object contains one tag for each batch that can be open. A tag comes back exactly once, on
 * the queue thread.
 */
#pragma once

#include "rpc/arena.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_runtime;

struct rpc_tag {
    /* is_ok false: the operation failed (the peer has left, shutdown). */
    void (*done)(struct rpc_tag *tag, bool is_ok);
    void *owner;
};

/* Called every RPC_TICK_MS on the queue thread, to check time limits. */
#define RPC_TICK_MS 200

struct rpc_tick {
    void (*fn)(void *owner, uint64_t now_ns);
    void *owner;
    struct rpc_tick *next;
};

grpc_completion_queue *rpc_queue(struct rpc_runtime *runtime);
/* The memory of the present message; for the queue thread only. */
struct rpc_arena *rpc_queue_arena(struct rpc_runtime *runtime);

/* Starts a batch; its tag will come back. The tag's function sees all earlier writes of the caller.
 * Asserts that gRPC accepts the batch: a refusal is a bug of the caller. */
void rpc_queue_start(struct rpc_runtime *runtime, grpc_call *call, const grpc_op *operations,
                     size_t n_operations, struct rpc_tag *tag);
/* For tags that are passed to gRPC in another way: makes earlier writes visible to the tag's
 * function. */
void rpc_queue_publish(struct rpc_runtime *runtime);

void rpc_queue_add_tick(struct rpc_runtime *runtime, struct rpc_tick *tick);
/* After it has returned, tick->fn does not run any more. */
void rpc_queue_remove_tick(struct rpc_runtime *runtime, struct rpc_tick *tick);
