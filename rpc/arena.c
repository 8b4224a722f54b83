/* arena - see arena.h: bump allocation. */
#include "rpc/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES_MIN 16384u /* most requests fit the one chunk that is kept */
#define CHUNK_BYTES_MAX 262144u
#define ALIGNMENT       16u

struct rpc_arena_chunk {
    struct rpc_arena_chunk *older;
    size_t bytes; /* behind this header */
};

static_assert(sizeof(struct rpc_arena_chunk) % ALIGNMENT == 0, "data follows the header aligned");

static void *allocate(void *arena, size_t bytes)
{
    return rpc_arena_allocate(arena, bytes);
}

static void free_nothing(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

void rpc_arena_init(struct rpc_arena *arena)
{
    memset(arena, 0, sizeof *arena);
    arena->allocator = (ProtobufCAllocator){allocate, free_nothing, arena};
}

void rpc_arena_reset(struct rpc_arena *arena, size_t total_bytes_max)
{
    struct rpc_arena_chunk *chunk = arena->chunks;
    while (chunk && (chunk->older || chunk->bytes > CHUNK_BYTES_MIN)) {
        struct rpc_arena_chunk *older = chunk->older;
        arena->total_bytes -= chunk->bytes;
        free(chunk);
        chunk = older;
    }
    assert(arena->total_bytes == (chunk ? chunk->bytes : 0));
    arena->chunks = chunk;
    arena->chunk_used = 0;
    arena->total_bytes_max = total_bytes_max;
}

static struct rpc_arena_chunk *add_chunk(struct rpc_arena *arena, size_t bytes)
{
    size_t chunk_bytes = arena->chunks ? 2 * arena->chunks->bytes : CHUNK_BYTES_MIN;
    if (chunk_bytes > CHUNK_BYTES_MAX)
        chunk_bytes = CHUNK_BYTES_MAX;
    if (chunk_bytes < bytes)
        chunk_bytes = bytes;
    if (chunk_bytes > arena->total_bytes_max - arena->total_bytes)
        chunk_bytes = bytes;

    struct rpc_arena_chunk *chunk = malloc(sizeof *chunk + chunk_bytes);
    if (!chunk)
        return NULL;
    chunk->older = arena->chunks;
    chunk->bytes = chunk_bytes;
    arena->chunks = chunk;
    arena->chunk_used = 0;
    arena->total_bytes += chunk_bytes;
    return chunk;
}

void *rpc_arena_allocate(struct rpc_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    size_t rounded = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);

    struct rpc_arena_chunk *chunk = arena->chunks;
    assert(!chunk || arena->chunk_used <= chunk->bytes);
    if (!chunk || rounded > chunk->bytes - arena->chunk_used) {
        if (arena->total_bytes > arena->total_bytes_max ||
            rounded > arena->total_bytes_max - arena->total_bytes)
            return NULL;
        chunk = add_chunk(arena, rounded);
        if (!chunk)
            return NULL;
    }
    void *memory = (char *)(chunk + 1) + arena->chunk_used;
    arena->chunk_used += rounded;
    return memory;
}

void rpc_arena_finish(struct rpc_arena *arena)
{
    for (struct rpc_arena_chunk *chunk = arena->chunks, *older; chunk; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    memset(arena, 0, sizeof *arena);
}
