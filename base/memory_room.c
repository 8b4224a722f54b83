#include "base/memory_room.h"

#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The names in each version of cgroups. Version 1 writes a huge number for no limit. */
static const struct names {
    const char *limit, *usage, *reclaimable;
} NAMES[] = {
    [CGROUP_V1] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
    [CGROUP_V2] = {"memory.max", "memory.current", "inactive_file "},
};

#define NO_LIMIT_BYTES (1ull << 60)

/* The number after the name at the beginning of a line. */
static bool find_number(const char *text, const char *name, uint64_t *number_out)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0)
            return sscanf(line + strlen(name), "%" SCNu64, number_out) == 1;
    }
    return false;
}

static uint64_t reclaimable_bytes(const char *folder, const struct names *names)
{
    char text[8192];
    uint64_t bytes = 0;
    if (cgroup_read_text(folder, "memory.stat", text, sizeof text))
        (void)find_number(text, names->reclaimable, &bytes);
    return bytes;
}

static void take_group(void *arg, const char *folder, enum cgroup_version version)
{
    struct memory_room *room = arg;
    const struct names *names = &NAMES[version];
    uint64_t limit, usage;
    if (!cgroup_read_number(folder, names->limit, &limit) || limit >= NO_LIMIT_BYTES ||
        !cgroup_read_number(folder, names->usage, &usage))
        return;
    uint64_t cache = reclaimable_bytes(folder, names);
    usage -= cache < usage ? cache : usage;
    uint64_t left = usage < limit ? limit - usage : 0;
    if (room->limit_bytes == 0 || limit < room->limit_bytes)
        room->limit_bytes = limit;
    if (left < room->available_bytes)
        room->available_bytes = left;
}

enum status memory_room_read(const char *root, struct memory_room *room_out)
{
    struct memory_room room = {0};
    char folder[PATH_MAX], text[8192];
    if (snprintf(folder, sizeof folder, "%s/proc", root) >= PATH_MAX ||
        !cgroup_read_text(folder, "meminfo", text, sizeof text) ||
        !find_number(text, "MemAvailable:", &room.available_bytes))
        return STATUS_IO_FAILED;
    room.available_bytes *= 1024;
    cgroup_walk(root, "memory", take_group, &room);
    *room_out = room;
    return STATUS_OK;
}
