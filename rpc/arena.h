/*
 * arena - the memory of one unpacked message: bump allocation, freed all at once, with a cap.
 *
 * The cap bounds the memory that a short message can unpack to; beyond it an allocation returns
 * NULL and protobuf-c's unpack fails cleanly. One chunk is kept between messages.
 *
 * Thread: one at a time.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct rpc_arena {
    struct rpc_arena_chunk *chunks; /* newest first */
    size_t chunk_used;              /* bytes of the newest chunk */
    size_t total_bytes;             /* of all chunks */
    size_t total_bytes_max;
    ProtobufCAllocator allocator;
};

void rpc_arena_init(struct rpc_arena *arena);
/* Frees all allocations; the next message may use total_bytes_max. */
void rpc_arena_reset(struct rpc_arena *arena, size_t total_bytes_max);
/* Aligned to 16 bytes, not zeroed. NULL: over the cap, or out of memory. */
void *rpc_arena_allocate(struct rpc_arena *arena, size_t bytes);
void rpc_arena_finish(struct rpc_arena *arena);
