#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

static uint64_t rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void random_init(struct random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix64(&seed);
}

uint64_t random_u64(struct random *random)
{
    uint64_t *s = random->state;
    assert(s[0] | s[1] | s[2] | s[3]); /* the generator never leaves the state of all zeros */
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t n)
{
    assert(n > 0);
    uint64_t unfair = -n % n; /* 2^64 mod n: values below it would be too frequent */
    for (;;) {
        uint64_t x = random_u64(random);
        if (x >= unfair)
            return x % n;
    }
}

double random_unit(struct random *random)
{
    return (double)(random_u64(random) >> 11) * 0x1p-53;
}

enum status random_secret(void *out, size_t bytes, struct error *error)
{
    unsigned char *at = out;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(error, STATUS_IO_FAILED, "the kernel gives no random bytes: %m");
        at += got;
        bytes -= (size_t)got;
    }
    return STATUS_OK;
}
