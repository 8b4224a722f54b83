/*
 * huge_memory - anonymous memory in huge pages, for what is large and lives as long as the process: KV blocks,
 * packed weights, activations.
 *
 * From 2 MiB on, the memory begins at a multiple of 2 MiB and the kernel is asked for huge pages. It only uses them for
 * whole 2 MiB inside the memory, so nothing is taken beyond what was asked for. If it has none, or
 * /sys/kernel/mm/transparent_hugepage/enabled is "never", the pages are small and everything still works.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HUGE_MEMORY_BYTES (2ull << 20) /* a huge page */

/* Zeros; bytes > 0. NULL: no memory. */
uint8_t *huge_memory_map(size_t bytes);
/* The whole of what huge_memory_map returned, with the same bytes. */
void huge_memory_unmap(uint8_t *base, size_t bytes);
