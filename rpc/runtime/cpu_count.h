/*
 * cpu_count - how many CPUs gRPC believes there are: those that this process has room on.
 *
 * gRPC's core starts a thread for each configured CPU of the machine (2 to 32, event_engine) and has tables with a place
 * for each, whatever a pod's quota is. It asks sysconf, and the program's own sysconf stands before the C library's: for the two
 * questions about CPUs it answers with cpu_room.h's number where that is less. A thread that runs on a CPU of a
 * higher number uses the first place (gpr_cpu_current_cpu).
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdint.h>

uint32_t rpc_cpu_count(void);
