/*
 * cpu_cores - the cores behind the CPUs that this process may use, and which of them compute.
 *
 *     sys/devices/system/cpu/cpuN/topology/thread_siblings_list    CPUs of one core (SMT)
 *     sys/devices/cpu_atom/cpus                                    efficiency cores of Intel
 *     sys/devices/system/cpu/cpuN/cpu_capacity                     speed, 1024 is the fastest (Arm, x86)
 *     sys/devices/system/cpu/cpuN/cpufreq/cpuinfo_max_freq         speed where there is no capacity
 *     sys/devices/system/node/nodeN/cpulist                        CPUs of a memory node
 *
 * One thread computes on each fast core. A second thread on a core shares its multipliers and its caches. A slow core
 * makes the others wait: threads meet hundreds of times in a step. Slow are Intel's efficiency cores, whose
 * vector units are half as wide as their capacity says, and cores of less than half the speed of the fastest. If only
 * slow cores are allowed, they are the fastest and compute.
 *
 * Files that do not exist, as in some sandboxes, mean: each CPU is a core, all are fast, there is one node.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/cpu_room.h"

#include <stdbool.h>
#include <stdint.h>

#define CPU_NODES_MAX 64 /* a machine whose node ids are larger counts as one node */

struct cpu_cores {
    cpu_set_t computing; /* one CPU of each fast core, the lowest allowed one */
    cpu_set_t fast;      /* all allowed CPUs of these cores */
    uint32_t n_cores;    /* allowed, slow ones included */
    uint32_t
        threads;    /* that compute: one a fast core, or the quota rounded up where that is less */
    uint64_t nodes; /* bit N: a fast core of memory node N; never 0 */
    uint8_t node_of[CPU_SETSIZE];
};

/* root: "", or a folder that contains sys. room: as cpu_room_read made it. */
void cpu_cores_read(const char *root, const struct cpu_room *room, struct cpu_cores *cores_out);

uint32_t cpu_cores_nodes(const struct cpu_cores *cores); /* at least 1 */
/* The CPUs on which computing thread i may run: the fast ones of its node. Threads go round the nodes, so that each
 * node has as many as its cores allow. */
void cpu_cores_of_thread(const struct cpu_cores *cores, uint32_t thread, cpu_set_t *cpus_out);
/* Whether so many computing threads should be bound: they do not fit on one of several nodes, or there is one node with
 * slow cores beside fast ones, and no more threads than fast cores. Fewer threads than a node has cores are left to the kernel, as other processes like
 * this one may want the same node. */
bool cpu_cores_want_places(const struct cpu_cores *cores, uint32_t n_threads);

#define CPU_CORES_TEXT_MAX 144
/* "2 CPUs", "64 CPUs, 32 cores, 2 memory nodes", "CPU quota 1.5 of 24 CPUs, 8 fast of 16 cores" */
void cpu_cores_format(const struct cpu_cores *cores, const struct cpu_room *room,
                      char text_out[CPU_CORES_TEXT_MAX]);

/* The nth CPU of the set, from 0 on; it has so many. */
void cpu_set_nth(const cpu_set_t *cpus, uint32_t nth, cpu_set_t *one_out);

/* The CPUs of a list as the kernel writes it, "0-3,8,10-11"; what is no list adds none. */
void cpu_list_parse(const char *text, cpu_set_t *cpus_out);
