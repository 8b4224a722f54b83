/* kv_piece_bytes: a block goes in as few pieces as the limit allows, and none of them is a crumb. */
#include "kvtransfer/drivers/ucx/ucx_options.h"
#include "kvtransfer/kv_receiver.h"
#include "kvtransfer/transport/transport.h"

#include <criterion/criterion.h>

#define KIB 1024u

static void expect_fair(uint64_t block, uint32_t limit)
{
    const uint32_t bytes = kv_piece_bytes(block, limit);
    const uint64_t fewest = (block + limit - 1) / limit, n = (block + bytes - 1) / bytes;
    const uint64_t last = block - (n - 1) * bytes;
    cr_assert_leq(bytes, limit, "block %lu", (unsigned long)block);
    cr_assert_eq(bytes % 64, 0);
    cr_assert_eq(n, fewest, "block %lu limit %u: %lu pieces", (unsigned long)block, limit,
                 (unsigned long)n);
    cr_assert(bytes - last < 64 * n, "block %lu limit %u: the last has %lu of %u",
              (unsigned long)block, limit, (unsigned long)last, bytes);
}

Test(kv_piece_bytes, pieces_are_few_and_equal)
{
    static const uint32_t LIMITS[] = {64, 60 * KIB, UCX_PIECE_BYTES, PIECE_BYTES_MAX};
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
        for (uint64_t block = 64; block < 5 * PIECE_BYTES_MAX; block += 64 * (1 + block / 4096))
            expect_fair(block, LIMITS[i]);
    expect_fair(1, 64);
    expect_fair(PIECE_BYTES_MAX + 700, UCX_PIECE_BYTES);
}

/* The sizes of blocks that models have. */
Test(kv_piece_bytes, blocks_of_common_sizes)
{
    cr_expect_eq(kv_piece_bytes(40 * KIB, UCX_PIECE_BYTES), 40 * KIB);
    cr_expect_eq(kv_piece_bytes(64 * KIB, UCX_PIECE_BYTES), 32 * KIB);
    cr_expect_eq(kv_piece_bytes(256 * KIB, PIECE_BYTES_MAX), 256 * KIB);
}
