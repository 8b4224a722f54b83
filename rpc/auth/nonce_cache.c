#include "rpc/auth/nonce_cache.h"

#include "base/hash.h"
#include "base/random.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_MS   4096u
#define EPOCHS_MAX 32u /* more than twice the window has */
#define NONE       UINT32_MAX

struct node {
    uint8_t nonce[NONCE_BYTES];
    uint32_t next_in_chain;
    uint32_t next_in_epoch; /* in its epoch's list, or in the free list */
};

struct nonce_cache {
    struct hash_key key;
    struct node *nodes;
    uint32_t *chains; /* [n_chains], a power of two */
    uint32_t n_chains;
    uint32_t free;
    uint32_t epochs[EPOCHS_MAX]; /* the first node of each epoch, by its number modulo EPOCHS_MAX */
    uint64_t first;              /* the oldest epoch that is still kept */
};
_Static_assert(EPOCHS_MAX *EPOCH_MS > 2 * NONCE_WINDOW_MS + 2 * EPOCH_MS, "room for the window");

enum status nonce_cache_create(uint32_t nonces_max, struct nonce_cache **cache_out)
{
    assert(nonces_max > 0 && nonces_max < NONE / 2);
    struct nonce_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return STATUS_NO_MEMORY;
    cache->n_chains = 1;
    while (cache->n_chains < nonces_max)
        cache->n_chains *= 2;
    cache->nodes = calloc(nonces_max, sizeof *cache->nodes);
    cache->chains = malloc(cache->n_chains * sizeof *cache->chains);
    enum status status = random_secret(&cache->key, sizeof cache->key, NULL);
    if (!cache->nodes || !cache->chains)
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        nonce_cache_destroy(cache);
        return status;
    }
    memset(cache->chains, 0xFF, cache->n_chains * sizeof *cache->chains);
    memset(cache->epochs, 0xFF, sizeof cache->epochs);
    for (uint32_t i = 0; i < nonces_max; i++)
        cache->nodes[i].next_in_epoch = i + 1 < nonces_max ? i + 1 : NONE;
    *cache_out = cache;
    return STATUS_OK;
}

void nonce_cache_destroy(struct nonce_cache *cache)
{
    if (!cache)
        return;
    free(cache->nodes);
    free(cache->chains);
    free(cache);
}

static uint32_t *chain_of(struct nonce_cache *cache, const uint8_t nonce[NONCE_BYTES])
{
    uint64_t hash = hash128_of(&cache->key, nonce, NONCE_BYTES).lo;
    return &cache->chains[hash & (cache->n_chains - 1)];
}

static void forget_epoch(struct nonce_cache *cache, uint32_t *first_node)
{
    while (*first_node != NONE) {
        uint32_t index = *first_node;
        struct node *node = &cache->nodes[index];
        uint32_t *link = chain_of(cache, node->nonce);
        while (*link != index) {
            assert(*link != NONE);
            link = &cache->nodes[*link].next_in_chain;
        }
        *link = node->next_in_chain;
        *first_node = node->next_in_epoch;
        node->next_in_epoch = cache->free;
        cache->free = index;
    }
}

/* Drops the epochs whose calls are all too old now. */
static void forget(struct nonce_cache *cache, uint64_t now_ms)
{
    uint64_t oldest = now_ms > NONCE_WINDOW_MS ? (now_ms - NONCE_WINDOW_MS) / EPOCH_MS : 0;
    for (uint32_t i = 0; i < EPOCHS_MAX && cache->first < oldest; i++)
        forget_epoch(cache, &cache->epochs[cache->first++ % EPOCHS_MAX]);
    if (cache->first < oldest)
        cache->first = oldest; /* all epochs are empty */
}

enum status nonce_cache_use(struct nonce_cache *cache, const uint8_t nonce[NONCE_BYTES],
                            uint64_t made_ms, uint64_t now_ms)
{
    assert(made_ms <= now_ms + NONCE_WINDOW_MS && now_ms <= made_ms + NONCE_WINDOW_MS);
    forget(cache, now_ms);
    uint64_t epoch = made_ms / EPOCH_MS;
    if (epoch < cache->first || epoch - cache->first >= EPOCHS_MAX)
        return STATUS_DUPLICATE_REQUEST;
    uint32_t *chain = chain_of(cache, nonce);
    for (uint32_t at = *chain; at != NONE; at = cache->nodes[at].next_in_chain)
        if (memcmp(cache->nodes[at].nonce, nonce, NONCE_BYTES) == 0)
            return STATUS_DUPLICATE_REQUEST;
    uint32_t index = cache->free;
    if (index == NONE)
        return STATUS_QUEUE_FULL;

    struct node *node = &cache->nodes[index];
    uint32_t *first_node = &cache->epochs[epoch % EPOCHS_MAX];
    cache->free = node->next_in_epoch;
    memcpy(node->nonce, nonce, NONCE_BYTES);
    node->next_in_chain = *chain;
    node->next_in_epoch = *first_node;
    *chain = index;
    *first_node = index;
    return STATUS_OK;
}
