#include "kvcache/prefix_hash.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

struct prefix_key prefix_key_for(const struct prefix_key *secret, const char *numerics)
{
    struct hash_key hash_key;
    struct prefix_key key;
    memcpy(&hash_key, secret, sizeof hash_key);
    struct hash128 hash = hash128_of(&hash_key, numerics, strlen(numerics));
    _Static_assert(sizeof hash == sizeof key, "both are 16 bytes");
    memcpy(&key, &hash, sizeof key);
    return key;
}

void prefix_hash_next(const struct prefix_key *key, struct prefix_hash before,
                      const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                      struct prefix_hash *hashes_out)
{
    struct hash_key hash_key;
    _Static_assert(sizeof hash_key == sizeof *key, "both are 16 bytes");
    memcpy(&hash_key, key, sizeof hash_key);
    assert(block_tokens > 0);

    struct hash128 hash = {before.lo, before.hi};
    const uint32_t n = n_tokens / block_tokens;
    for (uint32_t i = 0; i < n; i++) {
        hash = hash128_chain(&hash_key, hash, token_ids + (size_t)i * block_tokens,
                             block_tokens * sizeof *token_ids);
        hashes_out[i] = (struct prefix_hash){hash.lo, hash.hi};
    }
}

void prefix_hash_blocks(const struct prefix_key *key, const void *salt, size_t salt_bytes,
                        const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                        struct prefix_hash *hashes_out)
{
    struct hash_key hash_key;
    memcpy(&hash_key, key, sizeof hash_key);
    const struct hash128 hash = hash128_of(&hash_key, salt, salt_bytes);
    prefix_hash_next(key, (struct prefix_hash){hash.lo, hash.hi}, token_ids, n_tokens, block_tokens,
                     hashes_out);
}
