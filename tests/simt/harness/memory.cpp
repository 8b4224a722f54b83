#include "harness/memory.h"

#include "harness/threads.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace simt
{
static std::mutex lock;
static std::map<uintptr_t, struct allocation> allocations; /* by begin */
struct allocation *recent[RECENT_PAGES];

static uint32_t *map_marks(size_t n)
{
    void *mapped = mmap(nullptr, n * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        report("no memory to mark accesses to %zu bytes", n);
    return (uint32_t *)mapped;
}

static void unmap_marks(const struct allocation &allocation)
{
    const size_t bytes = (allocation.end - allocation.begin) * sizeof(uint32_t);
    munmap(allocation.writers, bytes);
    munmap(allocation.readers, bytes);
}

static void forget(uintptr_t begin)
{
    auto found = allocations.find(begin);
    if (found == allocations.end())
        return;
    unmap_marks(found->second);
    std::fill(std::begin(recent), std::end(recent), nullptr);
    allocations.erase(found);
}

struct allocation *allocation_before(uintptr_t address)
{
    auto next = allocations.upper_bound(address);
    return next == allocations.begin() ? nullptr : &std::prev(next)->second;
}

struct allocation *allocation_of(uintptr_t address)
{
    struct allocation **place = &recent[address / 4096 % RECENT_PAGES];
    if (*place && address >= (*place)->begin && address < (*place)->end)
        return *place;
    struct allocation *found = allocation_before(address);
    if (!found || address >= found->end)
        return nullptr;
    return *place = found;
}

bool has_allocations()
{
    return !allocations.empty();
}

void forget_accesses()
{
    for (auto &item : allocations) {
        const size_t bytes = (item.second.end - item.second.begin) * sizeof(uint32_t);
        madvise(item.second.writers, bytes, MADV_DONTNEED);
        madvise(item.second.readers, bytes, MADV_DONTNEED);
    }
}
} // namespace simt

void simt_memory_add(const void *base, size_t bytes)
{
    std::lock_guard<std::mutex> guard(simt::lock);
    if (bytes == 0)
        return;
    const uintptr_t begin = (uintptr_t)base;
    for (const struct simt::allocation *old = simt::allocation_before(begin + bytes - 1);
         old && old->end > begin; old = simt::allocation_before(begin + bytes - 1))
        simt::forget(old->begin);
    simt::allocations[begin] = {begin, begin + bytes, simt::map_marks(bytes),
                                simt::map_marks(bytes)};
}

void simt_memory_remove(const void *base)
{
    std::lock_guard<std::mutex> guard(simt::lock);
    simt::forget((uintptr_t)base);
}
