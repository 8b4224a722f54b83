/* block_pool: acquire is all or nothing, the states add up after any operation, and addresses are
 * computed in 64 bits. */
#include "base/random.h"
#include "kvcache/block_pool.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

static struct block_pool *new_pool(uint32_t n_blocks)
{
    struct block_pool *pool;
    cr_assert_eq(block_pool_create(n_blocks, 64, &pool), STATUS_OK);
    return pool;
}

Test(block_pool, acquire_takes_all_or_nothing)
{
    struct block_pool *pool = new_pool(4);
    block_id ids[5];

    cr_assert_eq(block_pool_acquire(pool, 5, ids), STATUS_NO_BLOCKS);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), 4);
    cr_assert_eq(block_pool_acquire(pool, 4, ids), STATUS_OK);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), 0);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 4);

    block_pool_release(pool, ids, 4);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), 4);
    block_pool_destroy(pool);
}

Test(block_pool, refuses_zeroes_and_products_over_the_address_space)
{
    struct block_pool *pool = NULL;
    cr_assert_eq(block_pool_create(0, 64, &pool), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(block_pool_create(4, 0, &pool), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(block_pool_create(1u << 20, SIZE_MAX / 1024, &pool), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(block_pool_create(1, (size_t)1 << 62, &pool), STATUS_NO_MEMORY);
    cr_assert_null(pool);
    block_pool_destroy(NULL);
}

Test(block_pool, states_follow_the_first_use_that_applies)
{
    struct block_pool *pool = new_pool(1);
    block_id id;
    cr_assert_eq(block_pool_acquire(pool, 1, &id), STATUS_OK);
    block_pool_inbound(pool, &id, 1);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_INBOUND);
    block_pool_fence(pool, &id, 1);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_QUARANTINED);
    block_pool_pin(pool, &id, 1);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_QUARANTINED);
    block_pool_unfence(pool, &id, 1);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_PINNED);
    block_pool_unpin(pool, &id, 1);
    block_pool_arrived(pool, &id, 1);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_ACTIVE);
    block_pool_cache(pool, id);
    block_pool_release(pool, &id, 1);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_CACHED);
    block_pool_uncache(pool, id);
    cr_assert_eq(block_pool_state(pool, id), BLOCK_FREE);
    block_pool_destroy(pool);
}

Test(block_pool, a_quarantined_block_outlives_its_holder_and_does_not_come_back_inbound)
{
    struct block_pool *pool = new_pool(1);
    block_id id, other;
    cr_assert_eq(block_pool_acquire(pool, 1, &id), STATUS_OK);
    block_pool_inbound(pool, &id, 1);
    block_pool_fence(pool, &id, 1);
    block_pool_release(pool, &id, 1);
    cr_assert_eq(block_pool_acquire(pool, 1, &other), STATUS_NO_BLOCKS);
    block_pool_unfence(pool, &id, 1);
    cr_assert_eq(block_pool_acquire(pool, 1, &other), STATUS_OK);
    cr_assert_eq(block_pool_state(pool, other), BLOCK_ACTIVE);
    block_pool_release(pool, &other, 1);
    block_pool_destroy(pool);
}

Test(block_pool, a_release_without_a_holder_is_an_assertion, .signal = SIGABRT)
{
    struct block_pool *pool = new_pool(2);
    block_id id = 1;
    block_pool_release(pool, &id, 1);
}

Test(block_pool, a_pool_over_4_gib_has_64_bit_addresses)
{
    const size_t block_bytes = (size_t)3 << 20;
    const uint32_t n_blocks = 2731; /* a little over 8 GiB */
    void *memory = mmap(NULL, n_blocks * block_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    struct block_pool *pool;
    cr_assert_eq(block_pool_create_in(memory, n_blocks, block_bytes, &pool), STATUS_OK);

    for (uint32_t id = 0; id < n_blocks; id += 455)
        memcpy(block_pool_data(pool, id) + block_bytes - sizeof id, &id, sizeof id);
    for (uint32_t id = 0; id < n_blocks; id += 455) {
        uint32_t found;
        memcpy(&found, (char *)memory + (id + 1ull) * block_bytes - sizeof id, sizeof found);
        cr_assert_eq(found, id);
    }
    block_pool_destroy(pool);
    munmap(memory, n_blocks * block_bytes);
}

/* ---- against a naive model ---- */

enum { N_BLOCKS = 24, N_STEPS = 20000 };

struct model {
    uint32_t holders[N_BLOCKS], pins[N_BLOCKS], fences[N_BLOCKS];
    bool cached[N_BLOCKS], inbound[N_BLOCKS];
};

static enum block_state model_state(const struct model *m, block_id id)
{
    return m->fences[id]                      ? BLOCK_QUARANTINED
           : m->pins[id]                      ? BLOCK_PINNED
           : m->holders[id] && m->inbound[id] ? BLOCK_INBOUND
           : m->holders[id]                   ? BLOCK_ACTIVE
           : m->cached[id]                    ? BLOCK_CACHED
                                              : BLOCK_FREE;
}

static void compare(const struct block_pool *pool, const struct model *m)
{
    uint32_t counts[BLOCK_STATES] = {0};
    for (block_id id = 0; id < N_BLOCKS; id++) {
        cr_assert_eq(block_pool_state(pool, id), model_state(m, id), "block %u", id);
        counts[model_state(m, id)]++;
    }
    for (int s = 0; s < BLOCK_STATES; s++)
        cr_assert_eq(block_pool_count(pool, s), counts[s], "%s", block_state_name(s));
}

static void acquire_some(struct block_pool *pool, struct model *m, struct random *random)
{
    block_id ids[N_BLOCKS + 2];
    uint32_t n = (uint32_t)random_below(random, N_BLOCKS / 2 + 2);
    uint32_t n_free = block_pool_count(pool, BLOCK_FREE);
    enum status status = block_pool_acquire(pool, n, ids);
    cr_assert_eq(status, n > n_free ? STATUS_NO_BLOCKS : STATUS_OK);
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        cr_assert_eq(model_state(m, ids[i]), BLOCK_FREE, "only a free block is handed out");
        m->holders[ids[i]] = 1;
    }
}

static void change_one(struct block_pool *pool, struct model *m, struct random *random)
{
    block_id id = (block_id)random_below(random, N_BLOCKS);
    bool used = model_state(m, id) != BLOCK_FREE;
    switch (random_below(random, 10)) {
    case 0:
        if (used)
            block_pool_share(pool, &id, 1), m->holders[id]++;
        break;
    case 1:
    case 2:
        if (m->holders[id]) {
            block_pool_release(pool, &id, 1);
            if (--m->holders[id] == 0)
                m->inbound[id] = false;
        }
        break;
    case 3:
        if (used)
            block_pool_pin(pool, &id, 1), m->pins[id]++;
        break;
    case 4:
        if (m->pins[id])
            block_pool_unpin(pool, &id, 1), m->pins[id]--;
        break;
    case 5:
        if (used)
            block_pool_fence(pool, &id, 1), m->fences[id]++;
        break;
    case 6:
        if (m->fences[id])
            block_pool_unfence(pool, &id, 1), m->fences[id]--;
        break;
    case 7:
        if (m->inbound[id])
            block_pool_arrived(pool, &id, 1), m->inbound[id] = false;
        else if (m->holders[id])
            block_pool_inbound(pool, &id, 1), m->inbound[id] = true;
        break;
    case 8:
        if (used && !m->cached[id])
            block_pool_cache(pool, id), m->cached[id] = true;
        break;
    case 9:
        if (m->cached[id])
            block_pool_uncache(pool, id), m->cached[id] = false;
        break;
    }
}

static void drop_all(struct block_pool *pool, struct model *m)
{
    for (block_id id = 0; id < N_BLOCKS; id++) {
        for (; m->holders[id]; m->holders[id]--)
            block_pool_release(pool, &id, 1);
        for (; m->pins[id]; m->pins[id]--)
            block_pool_unpin(pool, &id, 1);
        for (; m->fences[id]; m->fences[id]--)
            block_pool_unfence(pool, &id, 1);
        if (m->cached[id])
            block_pool_uncache(pool, id);
    }
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), N_BLOCKS);
}

static void set_to_zero(void *bytes, size_t n_bytes)
{
    memset(bytes, 0, n_bytes);
}

Test(block_pool, a_free_block_is_zero_if_that_is_asked_for)
{
    block_id ids[2];
    struct block_pool *pool = new_pool(2);
    const size_t bytes = block_pool_block_bytes(pool);
    for (int scrubs = 0; scrubs < 2; scrubs++) {
        block_pool_scrub(pool, scrubs ? set_to_zero : NULL);
        cr_assert_eq(block_pool_acquire(pool, 2, ids), STATUS_OK);
        for (int i = 0; i < 2; i++)
            memset(block_pool_data(pool, ids[i]), 0x5a, bytes);
        block_pool_cache(pool, ids[0]);
        block_pool_fence(pool, &ids[1], 1);
        block_pool_release(pool, ids, 2);
        for (int i = 0; i < 2; i++) /* a prefix, and what a transfer still reads */
            cr_expect_eq(block_pool_data(pool, ids[i])[bytes - 1], 0x5a);
        block_pool_uncache(pool, ids[0]);
        block_pool_unfence(pool, &ids[1], 1);
        for (int i = 0; i < 2; i++)
            for (size_t at = 0; at < bytes; at++)
                cr_assert_eq(block_pool_data(pool, ids[i])[at], scrubs ? 0 : 0x5a);
    }
    block_pool_destroy(pool);
}

Test(block_pool, random_operations_agree_with_a_naive_model)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct block_pool *pool = new_pool(N_BLOCKS);
        struct model model = {0};
        struct random random;
        random_init(&random, seed);
        for (int step = 0; step < N_STEPS; step++) {
            if (random_below(&random, 8) == 0)
                acquire_some(pool, &model, &random);
            else
                change_one(pool, &model, &random);
            compare(pool, &model);
        }
        drop_all(pool, &model);
        block_pool_destroy(pool);
    }
}
