/*
 * cpu_room - how many CPUs this process has to compute with.
 *
 *     allowed     those that the kernel lets it run on (its affinity, cpusets included)
 *     quota       CPU time in a period, over the period: cpu.max or cpu.cfs_quota_us of its cgroup and of
 *                 those above, the lowest; "limits.cpu: 1500m" of a pod is 1.5
 *
 * Threads: as many as CPUs are allowed, or the quota rounded up where that is less. Up, for a quota of
 * 1.5 that is used by one thread leaves a third of what was paid for; used by two it is spent after
 * three quarters of a period, in which the prompt or the step is done sooner nevertheless. More threads than
 * that would spend it sooner still, and then stand still together, those that hold a lock included.
 *
 * Thread: any; no state.
 */
#pragma once

#include <sched.h>
#include <stdint.h>

struct cpu_room {
    cpu_set_t allowed; /* never empty */
    double quota;      /* CPUs; 0: there is none */
    uint32_t threads;  /* at least 1 */
};

/* root: "", or a folder in whose proc and sys the cgroups are. */
void cpu_room_read(const char *root, struct cpu_room *room_out);

#define CPU_ROOM_TEXT_MAX 64
/* "2 CPUs", "CPU quota 1.5 of 8 CPUs" */
void cpu_room_format(const struct cpu_room *room, char text_out[CPU_ROOM_TEXT_MAX]);
