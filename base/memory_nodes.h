/*
 * memory_nodes - spreads the memory of this process over the memory nodes (NUMA) on which it computes.
 *
 * All threads read all weights, so a matrix on one node would be read at that node's bandwidth, and through the link by
 * the threads of the others. Page by page in turn, all nodes' bandwidths add up. It applies to what is touched
 * afterwards: the KV pool, packed weights, activations, and pages of weight files that are not in the page cache yet.
 *
 * Thread: it applies to the calling thread and to those that it starts later; call it on main, at start.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* nodes: bit N is node N; not 0. UNSUPPORTED with a sentence: the kernel has no such call, a seccomp filter refuses it
 * (EPERM, as in Docker without CAP_SYS_NICE), or none of the nodes has memory that this process may use. */
MUST_CHECK enum status memory_nodes_interleave(uint64_t nodes, struct error *error);
