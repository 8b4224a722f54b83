/*
 * cpu_room - how many CPUs this process can use.
 *
 *     allowed     the CPUs that the kernel lets it run on (its affinity, cpusets included)
 *     quota       CPU time in a period divided by the period: cpu.max or cpu.cfs_quota_us, the lowest of
 *                 its cgroup and those above; "limits.cpu: 1500m" of a pod is 1.5
 *
 * Threads: the number of allowed CPUs, or the quota rounded up where that is less; cpu_cores.h has how many of them
 * compute. It is rounded up because one thread would leave a third of a quota of 1.5 unused. Two threads use it up after three quarters of a
 * period, but the prompt or the step still ends sooner. More threads would use it up even sooner; then all
 * of them stop until the next period, also those that hold a lock.
 *
 * Thread: any; no state.
 */
#pragma once

#include <sched.h>
#include <stdint.h>

struct cpu_room {
    cpu_set_t allowed; /* never empty */
    double quota;      /* CPUs; 0: no quota */
    uint32_t threads;  /* at least 1 */
};

/* root: "", or a folder that contains proc and sys. */
void cpu_room_read(const char *root, struct cpu_room *room_out);

#define CPU_ROOM_TEXT_MAX 64
/* "2 CPUs", "CPU quota 1.5 of 8 CPUs" */
void cpu_room_format(const struct cpu_room *room, char text_out[CPU_ROOM_TEXT_MAX]);
