/*
 * checks - what is looked at when a kernel touches memory. The compiler announces every access of a unit (the calls that
 * ThreadSanitizer would get); here each is to lie in a live allocation of the device, in the CTA's own shared memory or on
 * the thread's own stack, and to be aligned as the device wants it; two CTAs of one launch may not touch one byte, if one
 * of them writes, unless an atomic operation stands between them.
 *
 * Under ThreadSanitizer itself (SIMT_TSAN) its own runtime gets the calls, and only pointers in parameters are checked.
 */
#pragma once

#include "harness/memory.h"
#include "harness/threads.h"

namespace simt
{
/* frame: of the launch; what its callers have on the stack is read by kernels (parameters). */
void checks_begin(unsigned n_ctas, const void *frame);
void checks_end_group();

/* A mark of a byte: the launch (12 bits) and the CTA + 1 (20 bits). */
enum : uint32_t { CTA_BITS = 20, SEVERAL = (1u << CTA_BITS) - 1, LAUNCHES = 1u << (32 - CTA_BITS) };
enum : size_t { FRAME_BYTES = 64 << 10 };
/* The launch: its number, 1 .. LAUNCHES - 1, and its frame. */
struct watched {
    uint32_t number;
    const uint8_t *frame;
};
extern struct watched watched;

/* The current thread's access to n bytes. aligned: the device wants it to be; site: where in the code. */
void touch(const void *p, size_t n, bool writes, bool aligned, const void *site);

/* What this CTA was the last to do to the same bytes need not be looked at again: who comes between is reported there. */
inline bool is_marked(const struct allocation *allocation, size_t at, size_t n, bool writes)
{
    const uint32_t me = watched.number << CTA_BITS | (current->cta->number + 1);
    const uint32_t several = watched.number << CTA_BITS | SEVERAL;
    const uint32_t *marks = (writes ? allocation->writers : allocation->readers) + at;
    if (marks[0] == me && marks[n - 1] == me && n <= 16)
        return true;
    const uint32_t *others = allocation->writers + at;
    return !writes && n <= 16 && marks[0] == several && marks[n - 1] == several &&
           others[0] >> CTA_BITS != watched.number && others[n - 1] >> CTA_BITS != watched.number;
}

/* Whether an access needs no more than this look, as nearly all; else touch. */
template <unsigned N, bool IS_ALIGNED> inline bool is_plain(const void *p, bool writes)
{
    const uintptr_t address = (uintptr_t)p;
    if (!current || address - (uintptr_t)current->stack < STACK_BYTES ||
        address - (uintptr_t)watched.frame < FRAME_BYTES)
        return true;
    if (IS_ALIGNED && address % N != 0)
        return false;
    const size_t in_shared = address - (uintptr_t)current->cta->shared;
    if (in_shared < current->cta->shared_bytes)
        return in_shared + N <= current->cta->shared_bytes && !schedule.count_banks;
    const struct allocation *allocation = recent[address / 4096 % RECENT_PAGES];
    if (!allocation || address < allocation->begin || address + N > allocation->end)
        return false;
    return schedule.only_bounds || is_marked(allocation, address - allocation->begin, N, writes);
}
void check_launch(const char *kernel, unsigned n_threads, unsigned n_threads_max);
/* An address of a kernel's parameters that no allocation has ends the process; NULL is none. */
struct pointer_field {
    const char *parameters, *field;
    size_t offset;
};
void check_pointers(const char *kernel, const char *parameters, const struct pointer_field *fields,
                    const void *bytes);

/* Shared memory at the device's address: bytes of it there, aligned to them as far as 16. */
uint8_t *shared_pointer(uint32_t address, unsigned bytes);
uint8_t *shared_pointer_of(const struct cta *cta, uint32_t address, unsigned bytes);
/* Of global memory, for accesses of more than a word. */
void check_aligned(const void *address, unsigned bytes, const char *what);
/* What happens between CTAs: what a thread did before a fence and an atomic operation on place is seen by those that
 * come to place later and have a fence behind it. */
void checks_atomic(const void *place);
void checks_fence();
/* Both at once, as an acquire or a release of place does. */
void checks_acquire(const void *place);
void checks_release(const void *place);
/* One access of a warp: the address of each lane of mask, of bytes each. */
void count_banks(const uint32_t *addresses, uint32_t mask, unsigned bytes);
} // namespace simt
