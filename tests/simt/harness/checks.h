/*
 * checks - what is looked at when a kernel touches memory. The compiler announces every access of a unit (the calls that
 * ThreadSanitizer would get); here each is to lie in a live allocation of the device, in the CTA's own shared memory or on
 * the thread's own stack, and to be aligned as the device wants it; two CTAs of one launch may not touch one byte, if one
 * of them writes, unless an atomic operation stands between them.
 *
 * Under ThreadSanitizer itself (SIMT_TSAN) its own runtime gets the calls, and only pointers in parameters are checked.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace simt
{
/* frame: of the launch; what its callers have on the stack is read by kernels (parameters). */
void checks_begin(unsigned n_ctas, const void *frame);
void checks_end_group();

/* The current thread's access to n bytes. aligned: the device wants it to be; site: where in the code. */
void touch(const void *p, size_t n, bool writes, bool aligned, const void *site);
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
