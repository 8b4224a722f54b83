#include "worker_common/pool_memory.h"

#include <stdio.h>

#define MIB (1 << 20)

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
        "stay; lower kv_memory or kv_blocks, or give the process more memory",
        (double)bytes / MIB, (double)room->available_bytes / MIB, limit,
        (double)POOL_MEMORY_REST_BYTES / MIB);
}
