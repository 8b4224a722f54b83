/* pool_memory: what is not there is said. */
#include "worker_common/pool_memory.h"

#include <criterion/criterion.h>
#include <string.h>

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
