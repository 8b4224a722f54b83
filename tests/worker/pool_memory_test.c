/* pool_memory: what is not there is said, and what is there is this process's before it is ready. */
#include "worker/pool_memory.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#define MIB (1ull << 20)

Test(pool_memory, what_must_stay_is_not_given_to_the_pool)
{
    struct error error = {""};
    struct memory_room room = {.available_bytes = 100 * MIB};
    cr_expect_eq(pool_memory_check(&room, 100 * MIB - POOL_MEMORY_REST_BYTES, &error), STATUS_OK);
    cr_expect_eq(pool_memory_check(&room, 100 * MIB - POOL_MEMORY_REST_BYTES + 1, &error),
                 STATUS_NO_MEMORY);
    cr_expect_eq(pool_memory_check(&room, UINT64_MAX, &error), STATUS_NO_MEMORY);
    cr_expect_null(strstr(error.text, "limit"), "%s", error.text);
    room.limit_bytes = 512 * MIB;
    cr_expect_eq(pool_memory_check(&room, 99 * MIB, &error), STATUS_NO_MEMORY);
    cr_expect(strstr(error.text,
                     "no memory for 99.0 MiB of KV blocks: 100.0 MiB are left under the "
                     "limit of 512.0 MiB"),
              "%s", error.text);
}

/* Of an odd size, beyond one piece. */
Test(pool_memory, every_page_is_there_when_it_was_touched)
{
    const size_t page = 4096, n_pages = 2 * (16 * MIB / page) + 3, bytes = n_pages * page;
    static unsigned char is_there[3 * 16 * MIB / 4096];
    struct thread_pool *threads;
    cr_assert_eq(thread_pool_create(2, false, &threads), STATUS_OK);
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    pool_memory_touch(memory, bytes - 100, threads);
    cr_assert_eq(mincore(memory, bytes, is_there), 0);
    for (size_t i = 0; i < n_pages; i++)
        cr_assert(is_there[i] & 1, "page %zu of %zu", i, n_pages);
    munmap(memory, bytes);
    thread_pool_destroy(threads);
}
