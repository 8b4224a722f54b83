#include "kvcache/block_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct block {
    uint64_t origin;
    uint32_t holders, pins, fences;
    uint32_t n_lent; /* updated by settle */
    bool in_cache, is_inbound, is_passing;
    uint8_t state; /* enum block_state, updated by settle */
};

struct block_pool {
    uint8_t *base;
    size_t block_bytes;
    uint32_t n_blocks;
    bool owns_memory;
    block_pool_scrubber scrub;
    block_pool_copier copier;
    void *copier_arg;
    uint32_t counts[BLOCK_STATES];
    uint32_t n_lent;    /* of all blocks */
    block_id *free_ids; /* [counts[BLOCK_FREE]], a stack */
    block_pool_watcher watcher;
    void *watcher_arg;
    struct block blocks[];
};

const char *block_state_name(enum block_state state)
{
    static const char *const NAMES[BLOCK_STATES] = {"free",   "active",  "cached",
                                                    "pinned", "inbound", "quarantined"};
    assert((unsigned)state < BLOCK_STATES);
    return NAMES[state];
}

static enum block_state state_of(const struct block *block)
{
    if (block->fences > 0)
        return BLOCK_QUARANTINED;
    if (block->pins > 0)
        return BLOCK_PINNED;
    if (block->holders > 0)
        return block->is_inbound ? BLOCK_INBOUND : BLOCK_ACTIVE;
    return block->in_cache ? BLOCK_CACHED : BLOCK_FREE;
}

static void assert_sum(const struct block_pool *pool)
{
    uint64_t sum = 0;
    for (int i = 0; i < BLOCK_STATES; i++)
        sum += pool->counts[i];
    assert(sum == pool->n_blocks);
}

/* The last holder that gives it back gives a block, unless a fence keeps it. */
static uint32_t n_lent_of(const struct block *block)
{
    if (!block->is_passing || block->holders == 0)
        return 0;
    return block->fences > 0 ? block->holders : block->holders - 1;
}

/* Called after each change of a block: sets what follows from its counts. */
static void settle(struct block_pool *pool, block_id id)
{
    struct block *block = &pool->blocks[id];
    enum block_state before = block->state, now = state_of(block);
    const uint32_t n_lent = n_lent_of(block);
    pool->n_lent += n_lent - block->n_lent;
    block->n_lent = n_lent;
    if (before == now)
        return;

    block->state = (uint8_t)now;
    pool->counts[before]--;
    if (now == BLOCK_FREE)
        pool->free_ids[pool->counts[BLOCK_FREE]] = id;
    if (now == BLOCK_FREE && pool->scrub)
        pool->scrub(block_pool_data(pool, id), pool->block_bytes);
    pool->counts[now]++;
    assert_sum(pool);
    if (pool->watcher && block->in_cache && (before == BLOCK_CACHED || now == BLOCK_CACHED))
        pool->watcher(pool->watcher_arg, id, now == BLOCK_CACHED);
}

static struct block *block_at(struct block_pool *pool, block_id id)
{
    assert(id < pool->n_blocks);
    return &pool->blocks[id];
}

static void copy_bytes(void *arg, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
    (void)arg;
    memcpy(to, from, n_bytes);
}

static enum status create(void *memory, uint32_t n_blocks, size_t block_bytes,
                          struct block_pool **pool_out)
{
    size_t bytes;
    if (n_blocks == 0 || block_bytes == 0 || __builtin_mul_overflow(n_blocks, block_bytes, &bytes))
        return STATUS_INVALID_ARGUMENT;

    struct block_pool *pool = calloc(1, sizeof *pool + n_blocks * sizeof *pool->blocks);
    if (!pool)
        return STATUS_NO_MEMORY;
    pool->block_bytes = block_bytes;
    pool->n_blocks = n_blocks;
    pool->copier = copy_bytes;
    pool->free_ids = malloc(n_blocks * sizeof *pool->free_ids);
    if (!pool->free_ids)
        goto fail;

    pool->base = memory;
    if (!memory) {
        void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                            0);
        if (mapped == MAP_FAILED)
            goto fail;
        pool->base = mapped;
        pool->owns_memory = true;
    }

    for (uint32_t i = 0; i < n_blocks; i++)
        pool->free_ids[i] = n_blocks - 1 - i; /* the lowest id is taken first */
    pool->counts[BLOCK_FREE] = n_blocks;
    *pool_out = pool;
    return STATUS_OK;

fail:
    free(pool->free_ids);
    free(pool);
    return STATUS_NO_MEMORY;
}

enum status block_pool_create(uint32_t n_blocks, size_t block_bytes, struct block_pool **pool_out)
{
    return create(NULL, n_blocks, block_bytes, pool_out);
}

enum status block_pool_create_in(void *memory, uint32_t n_blocks, size_t block_bytes,
                                 struct block_pool **pool_out)
{
    assert(memory && (uintptr_t)memory % 64 == 0);
    return create(memory, n_blocks, block_bytes, pool_out);
}

void block_pool_scrub(struct block_pool *pool, block_pool_scrubber scrub)
{
    pool->scrub = scrub;
}

void block_pool_copy_by(struct block_pool *pool, block_pool_copier copier, void *arg)
{
    pool->copier = copier;
    pool->copier_arg = arg;
}

void block_pool_copy(struct block_pool *pool, const block_id *to, const block_id *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert(block_at(pool, to[i])->holders > 0 && block_at(pool, from[i])->holders > 0);
        pool->copier(pool->copier_arg, block_pool_data(pool, to[i]), block_pool_data(pool, from[i]),
                     pool->block_bytes);
    }
}

void block_pool_destroy(struct block_pool *pool)
{
    if (!pool)
        return;
    assert(pool->counts[BLOCK_FREE] + pool->counts[BLOCK_CACHED] == pool->n_blocks);
    if (pool->owns_memory)
        munmap(pool->base, pool->n_blocks * pool->block_bytes);
    free(pool->free_ids);
    free(pool);
}

uint32_t block_pool_size(const struct block_pool *pool)
{
    return pool->n_blocks;
}

size_t block_pool_block_bytes(const struct block_pool *pool)
{
    return pool->block_bytes;
}

uint8_t *block_pool_base(const struct block_pool *pool)
{
    return pool->base;
}

uint8_t *block_pool_data(const struct block_pool *pool, block_id id)
{
    assert(id < pool->n_blocks);
    return pool->base + (size_t)id * pool->block_bytes;
}

enum block_state block_pool_state(const struct block_pool *pool, block_id id)
{
    assert(id < pool->n_blocks);
    return pool->blocks[id].state;
}

uint32_t block_pool_count(const struct block_pool *pool, enum block_state state)
{
    assert((unsigned)state < BLOCK_STATES);
    return pool->counts[state];
}

bool block_pool_is_cached(const struct block_pool *pool, block_id id)
{
    assert(id < pool->n_blocks);
    return pool->blocks[id].in_cache;
}

void block_pool_watch(struct block_pool *pool, block_pool_watcher watcher, void *arg)
{
    assert(!watcher || !pool->watcher);
    pool->watcher = watcher;
    pool->watcher_arg = arg;
}

enum status block_pool_acquire(struct block_pool *pool, uint32_t n, block_id *ids_out)
{
    if (n > pool->counts[BLOCK_FREE])
        return STATUS_NO_BLOCKS;
    for (uint32_t i = 0; i < n; i++) {
        block_id id = pool->free_ids[pool->counts[BLOCK_FREE] - 1];
        assert(pool->blocks[id].state == BLOCK_FREE);
        pool->blocks[id].holders = 1;
        pool->blocks[id].origin = 0;
        pool->blocks[id].is_passing = false;
        settle(pool, id);
        ids_out[i] = id;
    }
    return STATUS_OK;
}

void block_pool_acquire_these(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    const uint32_t n_free = pool->counts[BLOCK_FREE];
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->state == BLOCK_FREE && block->holders == 0);
        block->holders = 1;
        block->origin = 0;
        block->is_passing = false;
    }
    for (uint32_t i = 0; i < n_free; i++)
        if (pool->blocks[pool->free_ids[i]].holders == 0)
            pool->free_ids[n_left++] = pool->free_ids[i];
    for (uint32_t i = 0; i < n; i++)
        settle(pool, ids[i]);
    assert(n_left == pool->counts[BLOCK_FREE]);
}

void block_pool_mark_passing(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->holders == 1 && block->fences == 0);
        block->is_passing = true;
    }
}

uint32_t block_pool_lent(const struct block_pool *pool)
{
    return pool->n_lent;
}

void block_pool_share(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->state != BLOCK_FREE && block->holders < UINT32_MAX);
        block->holders++;
        settle(pool, ids[i]);
    }
}

void block_pool_release(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->holders > 0);
        block->holders--;
        if (block->holders == 0)
            block->is_inbound = false; /* no sequence waits for it */
        settle(pool, ids[i]);
    }
}

void block_pool_inbound(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->holders > 0 && !block->is_inbound);
        block->is_inbound = true;
        settle(pool, ids[i]);
    }
}

void block_pool_arrived(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->is_inbound);
        block->is_inbound = false;
        settle(pool, ids[i]);
    }
}

void block_pool_set_origin(struct block_pool *pool, const block_id *ids, uint32_t n,
                           uint64_t origin)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->holders > 0);
        block->origin = origin;
    }
}

uint64_t block_pool_origin(const struct block_pool *pool, block_id id)
{
    assert(id < pool->n_blocks);
    return pool->blocks[id].origin;
}

void block_pool_pin(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->state != BLOCK_FREE && block->pins < UINT32_MAX);
        block->pins++;
        settle(pool, ids[i]);
    }
}

void block_pool_unpin(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->pins > 0);
        block->pins--;
        settle(pool, ids[i]);
    }
}

void block_pool_fence(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->state != BLOCK_FREE && block->fences < UINT32_MAX);
        block->fences++;
        settle(pool, ids[i]);
    }
}

void block_pool_unfence(struct block_pool *pool, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = block_at(pool, ids[i]);
        assert(block->fences > 0);
        block->fences--;
        settle(pool, ids[i]);
    }
}

void block_pool_cache(struct block_pool *pool, block_id id)
{
    struct block *block = block_at(pool, id);
    assert(block->state != BLOCK_FREE && !block->in_cache);
    block->in_cache = true;
    settle(pool, id);
}

void block_pool_uncache(struct block_pool *pool, block_id id)
{
    struct block *block = block_at(pool, id);
    assert(block->in_cache);
    block->in_cache = false;
    settle(pool, id);
}
