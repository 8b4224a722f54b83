#include "worker/pool_memory.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#define MIB         (1 << 20)
#define PIECE_BYTES (16ull << 20) /* of one thread at a time */

enum status pool_memory_check(const struct memory_room *room, uint64_t bytes, struct error *error)
{
    if (bytes <= room->available_bytes && room->available_bytes - bytes >= POOL_MEMORY_REST_BYTES)
        return STATUS_OK;
    char limit[64] = "";
    if (room->limit_bytes > 0)
        snprintf(limit, sizeof limit, " under the limit of %.1f MiB",
                 (double)room->limit_bytes / MIB);
    return error_set(
        error, STATUS_NO_MEMORY,
        "no memory for %.1f MiB of KV blocks: %.1f MiB are left%s, of which %.1f MiB must "
        "stay; lower kv_memory or kv_blocks, or give it more",
        (double)bytes / MIB, (double)room->available_bytes / MIB, limit,
        (double)POOL_MEMORY_REST_BYTES / MIB);
}

struct area {
    volatile uint8_t *memory;
    size_t bytes, page_bytes;
};

static void touch_piece(void *arg, uint32_t index)
{
    const struct area *area = arg;
    size_t end = (size_t)(index + 1ull) * PIECE_BYTES;
    assert(index * PIECE_BYTES < area->bytes && "the last piece may be short, none is empty");
    if (end > area->bytes)
        end = area->bytes;
    for (size_t at = index * PIECE_BYTES; at < end; at += area->page_bytes)
        area->memory[at] = 0;
}

void pool_memory_touch(void *memory, size_t bytes, struct thread_pool *threads)
{
    struct area area = {memory, bytes, (size_t)sysconf(_SC_PAGESIZE)};
    thread_pool_run(threads, (uint32_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES), touch_piece,
                    &area);
}
