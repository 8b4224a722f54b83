#include "base/hash.h"

#include <assert.h>
#include <string.h>

struct siphash {
    uint64_t v[4];
    uint64_t tail; /* the bytes that do not fill a word yet, little endian */
    size_t bytes;
};

static uint64_t rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static void rounds(uint64_t v[4], int n)
{
    while (n--) {
        v[0] += v[1];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[3];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[2] = rotate_left(v[2], 32);
    }
}

static void compress(struct siphash *hash, uint64_t word)
{
    hash->v[3] ^= word;
    rounds(hash->v, 2);
    hash->v[0] ^= word;
}

static void start(struct siphash *hash, const struct hash_key *key)
{
    uint64_t k0 = load_le64(key->bytes), k1 = load_le64(key->bytes + 8);
    *hash = (struct siphash){.v = {0x736f6d6570736575u ^ k0, 0x646f72616e646f6du ^ k1 ^ 0xee,
                                   0x6c7967656e657261u ^ k0, 0x7465646279746573u ^ k1}};
}

/* Only in the last call may the length be no multiple of 8. */
static void absorb(struct siphash *hash, const void *data, size_t bytes)
{
    assert(hash->bytes % 8 == 0);
    const uint8_t *p = data;
    hash->bytes += bytes;
    for (; bytes >= 8; bytes -= 8, p += 8)
        compress(hash, load_le64(p));
    for (size_t i = 0; i < bytes; i++)
        hash->tail |= (uint64_t)p[i] << 8 * i;
}

static struct hash128 finish(struct siphash *hash)
{
    uint64_t *v = hash->v;
    struct hash128 result;

    compress(hash, hash->tail | (uint64_t)hash->bytes << 56);
    v[2] ^= 0xee;
    rounds(v, 4);
    result.lo = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds(v, 4);
    result.hi = v[0] ^ v[1] ^ v[2] ^ v[3];
    return result;
}

struct hash128 hash128_of(const struct hash_key *key, const void *data, size_t bytes)
{
    struct siphash hash;
    start(&hash, key);
    absorb(&hash, data, bytes);
    return finish(&hash);
}

struct hash128 hash128_chain(const struct hash_key *key, struct hash128 parent, const void *data,
                             size_t bytes)
{
    struct siphash hash;
    start(&hash, key);
    compress(&hash, parent.lo);
    compress(&hash, parent.hi);
    hash.bytes = sizeof parent;
    absorb(&hash, data, bytes);
    return finish(&hash);
}
