/*
 * cpu_count - tells gRPC how many CPUs this process may use (cpu_room.h).
 *
 * gRPC's core starts a thread for each configured CPU of the machine (2 to 32, event_engine) and has tables with an
 * entry for each CPU, whatever the quota of a pod is. It asks sysconf. This program defines a sysconf that overrides
 * that of the C library: for the two questions about CPUs it returns the number of cpu_room.h where that is less. A
 * thread on a CPU with a higher number uses the first entry (gpr_cpu_current_cpu).
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdint.h>

uint32_t rpc_cpu_count(void);
