#include "harness/checks.h"

#include "harness/banks.h"
#include "harness/cluster.h"
#include "harness/memory.h"
#include "harness/report.h"
#include "harness/threads.h"

#include <dlfcn.h>
#include <string.h>
#include <unordered_map>
#include <vector>

namespace simt
{
struct watched watched;

/* ThreadSanitizer is told by acquire and release of the same places, and orders CTAs, too. */
#ifdef SIMT_TSAN
enum : bool { MARKS_ACCESSES = false };
#else
enum : bool { MARKS_ACCESSES = true };
#endif

static struct {
    uintptr_t image_page; /* of the program's own constants, the last that was asked for */
    /* Which CTAs' work each CTA and each atomic place has seen; empty: none. */
    std::vector<std::vector<bool>> seen;
    std::unordered_map<const void *, std::vector<bool>> places;
} launched;

void checks_begin(unsigned n_ctas, const void *frame)
{
    if (++watched.number == LAUNCHES) {
        forget_accesses();
        watched.number = 1;
    }
    if (n_ctas >= SEVERAL)
        report("%u CTAs are more than can be told apart", n_ctas);
    watched.frame = (const uint8_t *)frame;
    launched.seen.assign(n_ctas, {});
    launched.places.clear();
}

void checks_end_group()
{
    banks_end();
}

static void join(std::vector<bool> *into, const std::vector<bool> &from)
{
    if (into->empty())
        into->resize(launched.seen.size());
    for (size_t i = 0; i < from.size(); i++)
        if (from[i])
            (*into)[i] = true;
}

void checks_acquire(const void *place)
{
    if (!MARKS_ACCESSES)
        return;
    join(&launched.seen[current->cta->number], launched.places[place]);
}

void checks_release(const void *place)
{
    if (!MARKS_ACCESSES)
        return;
    std::vector<bool> *mine = &launched.seen[current->cta->number];
    join(mine, {});
    (*mine)[current->cta->number] = true;
    join(&launched.places[place], *mine);
}

void checks_atomic(const void *place)
{
    if (current->has_fenced)
        checks_release(place);
    current->has_fenced = false;
    current->not_fenced = place;
}

void checks_fence()
{
    current->has_fenced = true;
    if (current->not_fenced)
        checks_acquire(current->not_fenced);
    current->not_fenced = nullptr;
}

static bool has_seen(uint32_t cta)
{
    const std::vector<bool> &mine = launched.seen[current->cta->number];
    return !mine.empty() && (cta == SEVERAL - 1 || mine[cta]);
}

/* cta: of the mark, if it is of this launch and of another CTA that is not known to be done. */
static bool is_others(uint32_t mark, uint32_t *cta)
{
    if (mark >> CTA_BITS != watched.number)
        return false;
    *cta = (mark & SEVERAL) - 1;
    return *cta != current->cta->number && !has_seen(*cta);
}

static void mark_byte(struct allocation *allocation, size_t at, bool writes)
{
    uint32_t *writer = &allocation->writers[at], *reader = &allocation->readers[at];
    const uint32_t me = watched.number << CTA_BITS | (current->cta->number + 1);
    uint32_t other;
    const void *address = (const void *)(allocation->begin + at);
    if (is_others(*writer, &other))
        report("%s %p, which CTA number %u of this launch wrote; nothing orders the two",
               writes ? "writes" : "reads", address, other);
    if (writes && is_others(*reader, &other))
        report("writes %p, which another CTA of this launch read; nothing orders the two", address);
    if (writes)
        *writer = me;
    else if (*reader >> CTA_BITS == watched.number && *reader != me)
        *reader = watched.number << CTA_BITS | SEVERAL;
    else
        *reader = me;
}

static void mark(struct allocation *allocation, size_t at, size_t n, bool writes)
{
    if (schedule.only_bounds || is_marked(allocation, at, n, writes))
        return;
    for (size_t i = 0; i < n; i++)
        mark_byte(allocation, at + i, writes);
}

static bool is_of_program(uintptr_t address)
{
    Dl_info info;
    if (address >> 12 == launched.image_page)
        return true;
    if (!dladdr((const void *)address, &info))
        return false;
    launched.image_page = address >> 12;
    return true;
}

static void report_foreign(uintptr_t address, size_t n, const char *verb)
{
    const void *p = (const void *)address;
    if (is_on_stack(p))
        report("%s %zu bytes at %p, on the stack of another thread", verb, n, p);
    const struct allocation *before = allocation_before(address);
    if (before)
        report(
            "%s %zu bytes at %p, which is in no allocation: %zu bytes behind the end of one of %zu",
            verb, n, p, (size_t)(address - before->end), (size_t)(before->end - before->begin));
    report("%s %zu bytes at %p, which is in no allocation of the device", verb, n, p);
}

static bool is_shared(uintptr_t address, size_t n, const char *verb)
{
    for (unsigned rank = 0; rank < cluster_size(); rank++) {
        const struct cta *of = cluster_size() > 1 ? cluster_cta(rank) : current->cta;
        const uintptr_t begin = (uintptr_t)of->shared, end = begin + of->shared_bytes;
        if (address >= begin && address < end + 4096) {
            if (address + n > end)
                report("%s %zu bytes at %zu of %zu of shared memory", verb, n,
                       (size_t)(address - begin), of->shared_bytes);
            return true;
        }
    }
    return false;
}

static void touch_elsewhere(uintptr_t address, size_t n, bool writes, const void *site)
{
    const char *verb = writes ? "writes" : "reads";
    if (is_shared(address, n, verb)) {
        const uintptr_t at = address - (uintptr_t)current->cta->shared;
        if (schedule.count_banks && n <= 16 && at < current->cta->shared_bytes)
            banks_access(site, (uint32_t)at, (unsigned)n);
        return;
    }
    if (!has_allocations() || is_of_program(address))
        return;
    report_foreign(address, n, verb);
}

/* n: 1 .. 16, or of a range; aligned: as the device wants what is not announced as unaligned. */
void touch(const void *p, size_t n, bool writes, bool aligned, const void *site)
{
    const uintptr_t address = (uintptr_t)p;
    const uint8_t *at = (const uint8_t *)p;
    if (!current || (at >= current->stack && at < current->stack + STACK_BYTES))
        return;
    if (at >= watched.frame && at < watched.frame + FRAME_BYTES)
        return;
    const struct cta *cta = current->cta;
    const size_t in_shared = address - (uintptr_t)cta->shared;
    if (in_shared < cta->shared_bytes && in_shared + n <= cta->shared_bytes &&
        !schedule.count_banks && !(aligned && address % n))
        return;
    struct allocation *allocation = allocation_of(address);
    if (aligned && address % n && (allocation || is_shared(address, n, "reaches")))
        report("%s %zu bytes at %p, which is not aligned to them", writes ? "writes" : "reads", n,
               p);
    if (allocation && address + n <= allocation->end)
        mark(allocation, address - allocation->begin, n, writes);
    else
        touch_elsewhere(address, n, writes, site);
}

void check_launch(const char *kernel, unsigned n_threads, unsigned n_threads_max)
{
    current = nullptr;
    if (n_threads > n_threads_max)
        report("%s: a CTA of %u threads, its list says at most %u", kernel, n_threads,
               n_threads_max);
}

void check_pointers(const char *kernel, const char *parameters, const struct pointer_field *fields,
                    const void *bytes)
{
    for (; fields->parameters; fields++) {
        uintptr_t address;
        if (strcmp(fields->parameters, parameters) != 0)
            continue;
        memcpy(&address, (const uint8_t *)bytes + fields->offset, sizeof address);
        const struct allocation *before = has_allocations() && address ? allocation_before(address)
                                                                       : nullptr;
        if (address && has_allocations() && !(before && address <= before->end))
            report("%s: %s is %p, which is in no allocation of the device", kernel, fields->field,
                   (void *)address);
    }
}

uint8_t *shared_pointer_of(const struct cta *cta, uint32_t address, unsigned bytes)
{
    const unsigned alignment = bytes < 16 ? bytes : 16;
    if (address + (size_t)bytes > cta->shared_bytes)
        report("%u bytes at %u of %zu of shared memory", bytes, address, cta->shared_bytes);
    if (address % alignment)
        report("%u bytes at %u of shared memory are not aligned to %u", bytes, address, alignment);
    return cta->shared + address;
}

uint8_t *shared_pointer(uint32_t address, unsigned bytes)
{
    return shared_pointer_of(current->cta, address, bytes);
}

void check_aligned(const void *address, unsigned bytes, const char *what)
{
    if ((uintptr_t)address % bytes)
        report("%s of %u bytes at %p, which is not aligned to them", what, bytes, address);
}
} // namespace simt
