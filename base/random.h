/*
 * random - a small seeded generator, and secret bits from the kernel.
 *
 * xoshiro256** seeded by splitmix64 (Blackman, Vigna: "Scrambled linear pseudorandom number
 * generators", 2019). The same seed gives the same numbers on every machine. Not for secrets.
 *
 * Thread: a generator belongs to one.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *random, uint64_t seed);
uint64_t random_u64(struct random *random);
uint64_t random_below(struct random *random, uint64_t n); /* 0 .. n - 1, unbiased; n > 0 */
double random_unit(struct random *random);                /* [0, 1), 53 bits */

/* Bits that cannot be guessed, for transfer ids, incarnations, hash keys. IO_FAILED: the kernel
 * gives none. */
MUST_CHECK enum status random_secret(void *out, size_t bytes, struct error *error);
