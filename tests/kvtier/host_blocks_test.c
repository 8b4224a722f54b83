/* host_blocks: what was used longest ago goes on to the next store, and is read from there. */
#include "kvtier/host_blocks.h"
#include "tests/kvtier/support/tier_folder.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ROOM = 3 };

static struct tier_folder folder;
static struct kv_files *files;
static struct host_blocks *host;

static void make(void)
{
    struct error error = {""};
    tier_folder_make(&folder);
    files = tier_open(&folder, 4);
    const struct host_blocks_options options = {.bytes_max = ROOM * tier_block_bytes() + 1,
                                                .block_bytes = tier_block_bytes(),
                                                .next = &KV_FILES_OPS,
                                                .next_store = files,
                                                .wipes = true};
    cr_assert_eq(host_blocks_create(&options, &error, &host), STATUS_OK);
}

static void finish(void)
{
    host_blocks_destroy(host);
    kv_files_close(files);
    tier_folder_remove(&folder);
}

TestSuite(host_blocks, .init = make, .fini = finish);

static void put(uint64_t number, uint64_t origin)
{
    uint8_t bytes[4096];
    const struct stored_block block = tier_block(number, number - 1, origin);
    tier_fill(number, bytes);
    cr_assert_eq(HOST_BLOCKS_OPS.write(host, &block, bytes), STATUS_OK);
}

static bool get(uint64_t number, uint64_t *origin_out)
{
    uint8_t bytes[4096];
    const struct stored_block block = tier_block(number, 0, 0);
    if (HOST_BLOCKS_OPS.read(host, &block.key, bytes, origin_out) != STATUS_OK)
        return false;
    cr_assert(tier_is_filled(number, bytes));
    return true;
}

static bool has(uint64_t number)
{
    const struct stored_block block = tier_block(number, 0, 0);
    return HOST_BLOCKS_OPS.has(host, &block.key);
}

Test(host_blocks, what_has_no_room_goes_to_the_next_store_and_comes_back)
{
    uint64_t origin;
    for (uint64_t number = 1; number <= ROOM; number++)
        put(number, 10 * number);
    cr_assert_eq(tier_folder_count(&folder), 0);
    cr_assert(get(1, &origin) && origin == 10);
    put(4, 40);
    put(5, 50);
    cr_assert_eq(tier_folder_count(&folder), 2, "2 and 3 were used longest ago");
    for (uint64_t number = 1; number <= 5; number++)
        cr_assert(has(number) && get(number, &origin) && origin == 10 * number);
    struct store_counts counts;
    host_blocks_count(host, &counts);
    cr_assert_eq(counts.n_blocks, ROOM);
    cr_assert_eq(counts.n_read, 4, "two of them are on the disk");
}

Test(host_blocks, what_must_vanish_vanishes_from_both)
{
    uint64_t origin;
    for (uint64_t number = 1; number <= 6; number++)
        put(number, number % 2 ? 7 : 0);
    HOST_BLOCKS_OPS.drop(host, 7);
    for (uint64_t number = 1; number <= 6; number++)
        cr_assert_eq(get(number, &origin), number % 2 == 0);
    HOST_BLOCKS_OPS.clear(host);
    for (uint64_t number = 1; number <= 6; number++)
        cr_assert(!has(number));
}

Test(host_blocks, without_another_store_what_has_no_room_is_lost)
{
    struct error error = {""};
    struct store_counts counts;
    host_blocks_destroy(host);
    const struct host_blocks_options options = {.bytes_max = ROOM * tier_block_bytes(),
                                                .block_bytes = tier_block_bytes()};
    cr_assert_eq(host_blocks_create(&options, &error, &host), STATUS_OK);
    for (uint64_t number = 1; number <= 5; number++)
        put(number, 0);
    for (uint64_t number = 1; number <= 5; number++)
        cr_assert_eq(has(number), number > 2);
    HOST_BLOCKS_OPS.count(host, &counts);
    cr_assert_eq(counts.n_removed, 2);
}

Test(host_blocks, less_than_a_block_is_refused)
{
    struct error error = {""};
    struct host_blocks *none = NULL;
    const struct host_blocks_options options = {.bytes_max = tier_block_bytes() - 1,
                                                .block_bytes = tier_block_bytes()};
    cr_assert_eq(host_blocks_create(&options, &error, &none), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "kv_host_memory is "));
}
