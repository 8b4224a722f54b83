#include "base/memory_room.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a version of cgroups calls things. Version 1 writes a huge number for no limit. */
static const struct cgroup_version {
    const char *home, *limit, *usage, *reclaimable;
} V1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
        "total_inactive_file "},
  V2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

#define NO_LIMIT_BYTES (1ull << 60)

static bool read_text(const char *path, char *text, size_t text_max)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t n = fread(text, 1, text_max - 1, file);
    fclose(file);
    text[n] = '\0';
    return n > 0;
}

/* The number behind the name at the beginning of a line. */
static bool find_number(const char *text, const char *name, uint64_t *number_out)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0)
            return sscanf(line + strlen(name), "%" SCNu64, number_out) == 1;
    }
    return false;
}

static bool read_number(const char *folder, const char *name, uint64_t *number_out)
{
    char path[PATH_MAX], text[64];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX &&
           read_text(path, text, sizeof text) && sscanf(text, "%" SCNu64, number_out) == 1;
}

static uint64_t reclaimable_bytes(const char *folder, const struct cgroup_version *version)
{
    char path[PATH_MAX], text[8192];
    uint64_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/memory.stat", folder) < PATH_MAX &&
        read_text(path, text, sizeof text))
        (void)find_number(text, version->reclaimable, &bytes);
    return bytes;
}

static void take_group(const char *folder, const struct cgroup_version *version,
                       struct memory_room *room)
{
    uint64_t limit, usage;
    if (!read_number(folder, version->limit, &limit) || limit >= NO_LIMIT_BYTES ||
        !read_number(folder, version->usage, &usage))
        return;
    uint64_t cache = reclaimable_bytes(folder, version);
    usage -= cache < usage ? cache : usage;
    uint64_t left = usage < limit ? limit - usage : 0;
    if (room->limit_bytes == 0 || limit < room->limit_bytes)
        room->limit_bytes = limit;
    if (left < room->available_bytes)
        room->available_bytes = left;
}

/* path: the group's own, as /proc/self/cgroup has it. Groups that cannot be seen from here, as from
 * inside a container, have no folder; the root of the hierarchy is the container's own then. */
static void take_groups(const char *root, const char *path, const struct cgroup_version *version,
                        struct memory_room *room)
{
    char folder[PATH_MAX];
    int home = snprintf(folder, sizeof folder, "%s%s", root, version->home);
    if (home >= PATH_MAX ||
        snprintf(folder + home, sizeof folder - (size_t)home, "%s", path) >= PATH_MAX - home)
        return;
    for (;;) {
        take_group(folder, version, room);
        char *slash = strrchr(folder, '/');
        if (slash < folder + home)
            return;
        *slash = '\0';
    }
}

/* Lines are "number:controllers:path"; of version 2 "0::path". */
static void read_groups(const char *root, char *text, struct memory_room *room)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        if (strcmp(line, "0:") == 0)
            take_groups(root, path, &V2, room);
        else if (strcmp(controllers + 1, "memory") == 0)
            take_groups(root, path, &V1, room);
    }
}

enum status memory_room_read(const char *root, struct memory_room *room_out)
{
    struct memory_room room = {0};
    char path[PATH_MAX], text[8192];
    if (snprintf(path, sizeof path, "%s/proc/meminfo", root) >= PATH_MAX ||
        !read_text(path, text, sizeof text) ||
        !find_number(text, "MemAvailable:", &room.available_bytes))
        return STATUS_IO_FAILED;
    room.available_bytes *= 1024;
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) < PATH_MAX &&
        read_text(path, text, sizeof text))
        read_groups(root, text, &room);
    *room_out = room;
    return STATUS_OK;
}
