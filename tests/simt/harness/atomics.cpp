#include "harness/atomics.h"

#include "harness/checks.h"
#include "harness/cluster.h"
#include "harness/memory.h"
#include "harness/threads.h"

#include <algorithm>

namespace simt
{
static char fences; /* what a fence orders, for ThreadSanitizer: everything with everything */

void atomic_begin(void *place, unsigned bytes)
{
    const bool is_shared = is_cluster_shared(place);
    check_aligned(place, bytes, "an atomic operation");
    if (!is_shared && has_allocations() && !allocation_of((uintptr_t)place))
        report("an atomic operation at %p, which is in no allocation of the device", place);
    if (!is_shared)
        checks_atomic(place);
    progress++;
}

void fence()
{
    release(&fences);
    acquire(&fences);
    checks_fence();
}

uint32_t load_acquire(const uint32_t *place)
{
    spin("load_acquire", (uint32_t)(uintptr_t)place);
    check_aligned(place, sizeof *place, "load_acquire");
    const uint32_t value = *(const volatile uint32_t *)place;
    acquire((void *)(uintptr_t)place);
    checks_acquire(place);
    return value;
}

void store_release(uint32_t *place, uint32_t value)
{
    check_aligned(place, sizeof *place, "store_release");
    release(place);
    checks_release(place);
    *(volatile uint32_t *)place = value;
    progress++;
}

uint32_t atomic_add(uint32_t *place, uint32_t value)
{
    return atomic(place, [=](uint32_t before) { return before + value; });
}

uint64_t atomic_add(uint64_t *place, uint64_t value)
{
    return atomic(place, [=](uint64_t before) { return before + value; });
}

uint32_t atomic_max(uint32_t *place, uint32_t value)
{
    return atomic(place, [=](uint32_t before) { return std::max(before, value); });
}

int32_t atomic_max(int32_t *place, int32_t value)
{
    return atomic(place, [=](int32_t before) { return std::max(before, value); });
}

uint32_t atomic_exchange(uint32_t *place, uint32_t value)
{
    return atomic(place, [=](uint32_t) { return value; });
}

uint32_t atomic_compare(uint32_t *place, uint32_t expected, uint32_t value)
{
    return atomic(place, [=](uint32_t before) { return before == expected ? value : before; });
}

uint64_t atomic_compare(uint64_t *place, uint64_t expected, uint64_t value)
{
    return atomic(place, [=](uint64_t before) { return before == expected ? value : before; });
}
} // namespace simt
