/* nonce_cache: a nonce is taken once while its call could be sent, at most so many are kept, and none is
 * forgotten for another. */
#include "base/random.h"
#include "rpc/auth/nonce_cache.h"

#include <criterion/criterion.h>
#include <string.h>

#define NOW 1700000000000ull

static enum status use(struct nonce_cache *cache, uint64_t number, uint64_t made_ms,
                       uint64_t now_ms)
{
    uint8_t nonce[NONCE_BYTES] = {0};
    memcpy(nonce, &number, sizeof number);
    return nonce_cache_use(cache, nonce, made_ms, now_ms);
}

Test(nonce_cache, none_is_taken_twice_as_long_as_its_call_could_come)
{
    struct nonce_cache *cache;
    cr_assert_eq(nonce_cache_create(8, &cache), STATUS_OK);
    cr_assert_eq(use(cache, 1, NOW, NOW), STATUS_OK);
    cr_assert_eq(use(cache, 1, NOW, NOW), STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(use(cache, 2, NOW + NONCE_WINDOW_MS, NOW), STATUS_OK);
    cr_assert_eq(use(cache, 1, NOW, NOW + NONCE_WINDOW_MS), STATUS_DUPLICATE_REQUEST);
    uint64_t last = NOW + 2 * NONCE_WINDOW_MS; /* the second's last moment */
    cr_assert_eq(use(cache, 2, NOW + NONCE_WINDOW_MS, last), STATUS_DUPLICATE_REQUEST);
    nonce_cache_destroy(cache);
}

Test(nonce_cache, a_full_one_refuses_and_has_room_again_when_calls_are_too_old)
{
    struct nonce_cache *cache;
    cr_assert_eq(nonce_cache_create(100, &cache), STATUS_OK);
    for (uint64_t i = 0; i < 100; i++)
        cr_assert_eq(use(cache, i, NOW, NOW), STATUS_OK);
    cr_assert_eq(use(cache, 1000, NOW, NOW), STATUS_QUEUE_FULL);
    for (uint64_t i = 0; i < 100; i++)
        cr_assert_eq(use(cache, i, NOW, NOW + NONCE_WINDOW_MS), STATUS_DUPLICATE_REQUEST);
    uint64_t later = NOW + NONCE_WINDOW_MS + 5000;
    for (uint64_t i = 0; i < 100; i++)
        cr_assert_eq(use(cache, i, later, later), STATUS_OK);
    cr_assert_eq(use(cache, 1000, later, later), STATUS_QUEUE_FULL);
    nonce_cache_destroy(cache);
}

Test(nonce_cache, what_is_forgotten_is_refused_though_the_clock_goes_back)
{
    struct nonce_cache *cache;
    cr_assert_eq(nonce_cache_create(8, &cache), STATUS_OK);
    cr_assert_eq(use(cache, 1, NOW, NOW), STATUS_OK);
    uint64_t later = NOW + 3600000;
    cr_assert_eq(use(cache, 2, later, later), STATUS_OK);
    cr_assert_eq(use(cache, 1, NOW, NOW), STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(use(cache, 3, NOW, NOW), STATUS_DUPLICATE_REQUEST);
    nonce_cache_destroy(cache);
}

Test(nonce_cache, equals_a_plain_list_over_a_random_walk)
{
    enum { N = 20000, ROOM = 512 };
    static struct {
        uint64_t number, made_ms;
    } taken[N];
    struct nonce_cache *cache;
    struct random random;
    uint64_t now_ms = NOW;
    uint32_t n_taken = 0, n_again = 0;
    random_init(&random, 7);
    cr_assert_eq(nonce_cache_create(ROOM, &cache), STATUS_OK);
    for (uint32_t i = 0; i < N; i++) {
        now_ms += random_below(&random, 400);
        bool is_again = n_taken > 0 && random_below(&random, 4) == 0;
        if (is_again) { /* one of the last, as it was */
            uint32_t back = (uint32_t)random_below(&random, n_taken < 60 ? n_taken : 60);
            uint64_t made_ms = taken[n_taken - 1 - back].made_ms;
            if (made_ms + NONCE_WINDOW_MS < now_ms)
                continue;
            n_again++;
            cr_assert_eq(use(cache, taken[n_taken - 1 - back].number, made_ms, now_ms),
                         STATUS_DUPLICATE_REQUEST);
            continue;
        }
        uint64_t made_ms = now_ms - NONCE_WINDOW_MS + random_below(&random, 2 * NONCE_WINDOW_MS);
        taken[n_taken].number = i;
        taken[n_taken].made_ms = made_ms;
        cr_assert_eq(use(cache, i, made_ms, now_ms), STATUS_OK);
        n_taken++;
    }
    cr_assert_gt(n_again, 1000);
    nonce_cache_destroy(cache);
}
