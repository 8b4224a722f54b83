/*
 * memory - the device's allocations, as the harness knows them.
 *
 * Thread: any; not during a launch.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* [base, base + bytes) is the device's until remove. Kernels may touch nothing else once there is one. What
 * was known of the same bytes is forgotten. */
void simt_memory_add(const void *base, size_t bytes);
void simt_memory_remove(const void *base);

#ifdef __cplusplus
}

namespace simt
{
struct allocation {
    uintptr_t begin, end;
    uint32_t *writers, *readers; /* [end - begin] who touched the byte last: checks.cpp */
};
/* Of pages that were asked for, by their number's last bits. */
enum : size_t { RECENT_PAGES = 1024 };
extern struct allocation *recent[RECENT_PAGES];
/* That has address; NULL: none. */
struct allocation *allocation_of(uintptr_t address);
/* The last one that begins at or before address; NULL: none. */
struct allocation *allocation_before(uintptr_t address);
bool has_allocations();
void forget_accesses(); /* of all */
} // namespace simt
#endif
