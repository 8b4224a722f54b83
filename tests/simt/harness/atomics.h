/*
 * atomics - operations on one word of global memory that no other thread can come between.
 */
#pragma once

#include <stdint.h>

namespace simt
{
/* Before: the word's alignment, and that it is the device's; the order of what threads do around it. */
void atomic_begin(void *place, unsigned bytes);
void fence();
/* Of a word that another CTA writes, in a loop: the others run meanwhile. */
uint32_t load_acquire(const uint32_t *place);
void store_release(uint32_t *place, uint32_t value);

template <class Word, class Change> Word atomic(Word *place, Change change)
{
    atomic_begin(place, sizeof(Word));
    const Word before = *(volatile Word *)place;
    *(volatile Word *)place = change(before);
    return before;
}

uint32_t atomic_add(uint32_t *place, uint32_t value);
uint64_t atomic_add(uint64_t *place, uint64_t value);
uint32_t atomic_max(uint32_t *place, uint32_t value);
int32_t atomic_max(int32_t *place, int32_t value);
uint32_t atomic_exchange(uint32_t *place, uint32_t value);
uint32_t atomic_compare(uint32_t *place, uint32_t expected, uint32_t value);
uint64_t atomic_compare(uint64_t *place, uint64_t expected, uint64_t value);
} // namespace simt
