#include "base/cpu_room.h"

#include "base/cgroup.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* "150000 100000", in microseconds; "max 100000": none. */
static bool read_v2(const char *folder, uint64_t *quota_out, uint64_t *period_out)
{
    char text[64];
    return cgroup_read_text(folder, "cpu.max", text, sizeof text) &&
           sscanf(text, "%" SCNu64 " %" SCNu64, quota_out, period_out) == 2;
}

static bool read_v1(const char *folder, uint64_t *quota_out, uint64_t *period_out)
{
    return cgroup_read_number(folder, "cpu.cfs_quota_us", quota_out) &&
           cgroup_read_number(folder, "cpu.cfs_period_us", period_out);
}

static void take_group(void *arg, const char *folder, enum cgroup_version version)
{
    struct cpu_room *room = arg;
    uint64_t quota, period;
    bool is_known = (version == CGROUP_V2 ? read_v2 : read_v1)(folder, &quota, &period);
    /* -1, none, is read as a large number. */
    if (!is_known || quota == 0 || quota > INT64_MAX || period == 0)
        return;
    double cpus = (double)quota / (double)period;
    if (room->quota == 0 || cpus < room->quota)
        room->quota = cpus;
}

void cpu_room_read(const char *root, struct cpu_room *room_out)
{
    struct cpu_room room = {.quota = 0};
    CPU_ZERO(&room.allowed);
    if (sched_getaffinity(0, sizeof room.allowed, &room.allowed) != 0 ||
        CPU_COUNT(&room.allowed) == 0)
        CPU_SET(0, &room.allowed);
    cgroup_walk(root, "cpu", take_group, &room);
    room.threads = (uint32_t)CPU_COUNT(&room.allowed);
    if (room.quota > 0 && ceil(room.quota) < room.threads)
        room.threads = (uint32_t)ceil(room.quota);
    assert(room.threads > 0);
    *room_out = room;
}

void cpu_room_format(const struct cpu_room *room, char text_out[CPU_ROOM_TEXT_MAX])
{
    int n_cpus = CPU_COUNT(&room->allowed);
    const char *plural = n_cpus == 1 ? "" : "s";
    if (room->quota > 0)
        snprintf(text_out, CPU_ROOM_TEXT_MAX, "CPU quota %.4g of %d CPU%s", room->quota, n_cpus,
                 plural);
    else
        snprintf(text_out, CPU_ROOM_TEXT_MAX, "%d CPU%s", n_cpus, plural);
}
