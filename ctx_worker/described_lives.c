#include "ctx_worker/described_lives.h"

#include "base/hash.h"
#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Open addressing, half full at most. */
#define PLACES (2 * DESCRIBED_LIVES_MAX)

struct described_life {
    uint64_t incarnation; /* 0: free */
    struct hash128 address;
};

struct described_lives {
    struct hash_key key;
    uint32_t n;
    struct described_life places[PLACES];
};

enum status described_lives_create(struct described_lives **lives_out)
{
    struct described_lives *lives = calloc(1, sizeof *lives);
    if (!lives)
        return STATUS_NO_MEMORY;
    enum status status = random_secret(&lives->key, sizeof lives->key, NULL);
    if (status == STATUS_OK)
        *lives_out = lives;
    else
        free(lives);
    return status;
}

void described_lives_destroy(struct described_lives *lives)
{
    free(lives);
}

static struct hash128 hash_of(const struct described_lives *lives,
                              const struct transport_address *address)
{
    struct hash128 hash = hash128_of(&lives->key, address->worker, address->worker_bytes);
    hash = hash128_chain(&lives->key, hash, address->pool_key, address->pool_key_bytes);
    hash = hash128_chain(&lives->key, hash, &address->pool_base, sizeof address->pool_base);
    return hash128_chain(&lives->key, hash, address->secret, sizeof address->secret);
}

/* The entry of the incarnation, or a free one. */
static struct described_life *find(struct described_lives *lives, uint64_t incarnation)
{
    assert(lives->n <= DESCRIBED_LIVES_MAX && "half of the entries are free, so the search ends");
    uint64_t at = hash128_of(&lives->key, &incarnation, sizeof incarnation).lo % PLACES;
    while (lives->places[at].incarnation != 0 && lives->places[at].incarnation != incarnation)
        at = (at + 1) % PLACES;
    return &lives->places[at];
}

enum status described_lives_note(struct described_lives *lives,
                                 const struct transport_address *address, struct error *error)
{
    assert(address->incarnation != 0 && "0 marks a free entry");
    struct described_life *life = find(lives, address->incarnation);
    struct hash128 hash = hash_of(lives, address);
    if (life->incarnation == 0 && lives->n == DESCRIBED_LIVES_MAX)
        return error_set(error, STATUS_QUEUE_FULL,
                         "%u other workers are known already, and this is the most",
                         DESCRIBED_LIVES_MAX);
    if (life->incarnation == 0) {
        *life = (struct described_life){address->incarnation, hash};
        lives->n++;
    }
    assert(life->incarnation == address->incarnation);
    if (hash128_equal(life->address, hash))
        return STATUS_OK;
    return error_set(error, STATUS_NOT_ALLOWED,
                     "run %016" PRIx64 " of this worker was described with another address before",
                     address->incarnation);
}
