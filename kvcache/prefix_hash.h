/*
 * prefix_hash - names for the beginnings of prompts: a hash for each whole block of tokens, of all tokens up to its end.
 *
 *     h[0] = H(key, salt),  h[i + 1] = H(key, h[i] || tokens of span i)        128 bits each
 *
 * The hash is keyed with a secret of the process, or of its folder of KV blocks, and starts from the request's cache salt.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prefix_hash {
    uint64_t lo, hi;
};

static inline bool prefix_hash_equal(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* Zeros stand for the beginning, which no span comes before. */
static inline bool prefix_hash_is_none(struct prefix_hash hash)
{
    return hash.lo == 0 && hash.hi == 0;
}

struct prefix_key {
    uint8_t bytes[16];
};

/* The key for blocks of one numerics id: the same tokens with another id have other hashes. */
struct prefix_key prefix_key_for(const struct prefix_key *secret, const char *numerics);

/* Hashes of the n_tokens / block_tokens whole blocks; hashes_out has room for them. */
void prefix_hash_blocks(const struct prefix_key *key, const void *salt, size_t salt_bytes,
                        const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                        struct prefix_hash *hashes_out);
/* The same for tokens behind a block with that hash. */
void prefix_hash_next(const struct prefix_key *key, struct prefix_hash before,
                      const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                      struct prefix_hash *hashes_out);
