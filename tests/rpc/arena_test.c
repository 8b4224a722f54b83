/* arena: hands out aligned memory up to its cap, and all of it again after a reset. */
#include "rpc/arena.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(arena, memory_is_aligned_and_apart)
{
    struct rpc_arena arena;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, 1 << 20);
    char *last = NULL;
    for (size_t bytes = 1; bytes < 3000; bytes += 7) {
        char *memory = rpc_arena_allocate(&arena, bytes);
        cr_assert_not_null(memory);
        cr_assert_eq((uintptr_t)memory % 16, 0);
        memset(memory, 1, bytes);
        if (last)
            cr_assert_eq(*last, 1);
        last = memory;
        if (bytes > 2000)
            break;
    }
    rpc_arena_finish(&arena);
}

Test(arena, refuses_past_its_cap_and_serves_again_after_a_reset)
{
    struct rpc_arena arena;
    rpc_arena_init(&arena);
    for (int round = 0; round < 3; round++) {
        rpc_arena_reset(&arena, 100000);
        size_t total = 0;
        while (rpc_arena_allocate(&arena, 1000))
            total += 1000;
        cr_assert_gt(total, 80000);
        cr_assert_leq(total, 100000);
        cr_assert_null(rpc_arena_allocate(&arena, 100000));
    }
    cr_assert_null(rpc_arena_allocate(&arena, SIZE_MAX));
    cr_assert_null(rpc_arena_allocate(&arena, SIZE_MAX - 20));
    rpc_arena_finish(&arena);
}

Test(arena, a_large_piece_gets_a_chunk_of_its_own)
{
    struct rpc_arena arena;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, 8 << 20);
    char *large = rpc_arena_allocate(&arena, 4 << 20);
    cr_assert_not_null(large);
    memset(large, 2, 4 << 20);
    rpc_arena_reset(&arena, 1 << 16);
    cr_assert_leq(arena.total_bytes, 1 << 16, "a reset gives large chunks back");
    rpc_arena_finish(&arena);
}
