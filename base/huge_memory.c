#include "base/huge_memory.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static uint8_t *map(size_t bytes)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void unmap(uint8_t *base, size_t bytes)
{
    int code = bytes > 0 ? munmap(base, bytes) : 0;
    assert(code == 0 && "it was mapped here");
    (void)code;
}

/* Maps up to a huge page too much, and gives back what is before the first multiple and behind the end. */
static uint8_t *map_aligned(size_t bytes)
{
    const size_t needed = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
    const size_t all = needed + HUGE_MEMORY_BYTES;
    uint8_t *mapped = all > bytes ? map(all) : NULL;
    if (!mapped)
        return NULL;
    const size_t before = round_up((uintptr_t)mapped, HUGE_MEMORY_BYTES) - (uintptr_t)mapped;
    unmap(mapped, before);
    unmap(mapped + before + needed, all - before - needed);
    return mapped + before;
}

uint8_t *huge_memory_map(size_t bytes)
{
    assert(bytes > 0);
    if (bytes < HUGE_MEMORY_BYTES)
        return map(bytes);
    uint8_t *base = map_aligned(bytes);
    if (base)
        (void)madvise(base, bytes, MADV_HUGEPAGE); /* a failure leaves small pages */
    return base;
}

void huge_memory_unmap(uint8_t *base, size_t bytes)
{
    unmap(base, bytes);
}
