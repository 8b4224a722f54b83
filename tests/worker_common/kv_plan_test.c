/* kv_plan: blocks as asked for, else what the batch can use within bounds; contexts that memory holds. */
#include "worker_common/kv_plan.h"

#include <criterion/criterion.h>
#include <string.h>

/* 2 * 2 * 4 * 8 * 16 elements of 2 bytes: 4 KiB a block */
static const struct geometry SMALL = {
    .n_layers = 2, .n_kv_heads = 4, .head_dim = 8, .block_tokens = 16, .dtype = KV_BF16};

static struct kv_wishes wishes(uint32_t context_tokens, uint32_t sequences_max, uint32_t kv_blocks,
                               uint64_t kv_memory)
{
    return (struct kv_wishes){.step.context_tokens = context_tokens,
                              .step.n_sequences = sequences_max,
                              .kv_blocks = kv_blocks,
                              .kv_memory = kv_memory};
}

static struct kv_plan plan_of(struct kv_wishes wanted)
{
    struct error error = {""};
    struct kv_plan plan = {0};
    cr_assert_eq(geometry_block_bytes(&SMALL), 4096);
    cr_assert_eq(kv_plan_make(&SMALL, &wanted, &plan, &error), STATUS_OK, "%s", error.text);
    return plan;
}

static void expect_plan(struct kv_wishes wanted, uint64_t n_blocks, enum kv_plan_rule rule)
{
    struct kv_plan plan = plan_of(wanted);
    cr_expect_eq(plan.n_blocks, n_blocks, "%u, not %lu blocks", plan.n_blocks, n_blocks);
    cr_expect_str_eq(kv_plan_rule_text(plan.rule), kv_plan_rule_text(rule));
}

Test(kv_plan, blocks_are_those_asked_for_else_what_the_batch_can_use)
{
    expect_plan(wishes(1024, 4, 7, 8192), 7, KV_PLAN_AS_TOLD);
    expect_plan(wishes(1024, 4, 0, 8192 + 4095), 2, KV_PLAN_AS_TOLD);
    expect_plan(wishes(1024, 4, 0, 0), 64 * 4, KV_PLAN_BATCH);
}

#define MIB     (1ull << 20)
#define PROCESS (24 * MIB) /* as it was measured */
#define NEEDS   (PROCESS + KV_LOAD_BYTES)

/* 4 << 20 tokens are 1 GiB, four of them the batch. */
static struct kv_wishes under(uint64_t limit_bytes, uint64_t weight_bytes, uint32_t n_sharers)
{
    return (struct kv_wishes){.step.context_tokens = 4 << 20,
                              .step.n_sequences = 4,
                              .limit_bytes = limit_bytes,
                              .taken = {.mapped_bytes = weight_bytes, .process_bytes = PROCESS},
                              .n_sharers = n_sharers};
}

Test(kv_plan, under_a_limit_the_pool_is_three_quarters_of_what_weights_and_process_leave)
{
    uint64_t left = 400 * MIB;
    uint64_t needs = NEEDS + 100 * MIB;
    uint64_t share = left / 4 * 3 / 4096;
    expect_plan(under(needs + left, 100 * MIB, 0), share, KV_PLAN_SHARE);
    expect_plan(under(needs + left, 100 * MIB, 1), share, KV_PLAN_SHARE);
    expect_plan(under(2 * (needs + left), 100 * MIB, 2), share, KV_PLAN_SHARE);
    expect_plan(under(UINT64_MAX / 2, 100 * MIB, 1), 4ull * (4 << 20) / 16, KV_PLAN_BATCH);
}

Test(kv_plan, under_any_limit_pool_weights_and_process_stay_below_it)
{
    for (uint64_t limit = NEEDS + 65 * MIB; limit < 64ull << 30; limit += limit / 7)
        for (uint32_t n = 1; n < 4; n++) {
            struct kv_plan plan = plan_of(under(n * limit, 64 * MIB, n));
            uint64_t all = n * (plan.n_blocks * 4096ull + NEEDS + 64 * MIB);
            cr_assert_leq(all, n * limit, "limit %lu of %u", limit, n);
        }
}

Test(kv_plan, what_is_kept_of_cached_blocks_counts_with_them)
{
    for (uint64_t limit = NEEDS + 65 * MIB; limit < 64ull << 30; limit += limit / 7) {
        struct kv_wishes wanted = under(limit, 0, 1);
        wanted.table_bytes = 10 * MIB;
        wanted.block_table_bytes = 1000;
        const struct kv_plan plan = plan_of(wanted);
        cr_assert_leq(plan.n_blocks * (4096ull + 1000) + NEEDS + 10 * MIB, limit);
        if (plan.rule == KV_PLAN_SHARE)
            cr_assert_eq(plan.n_blocks, (limit - NEEDS - 10 * MIB) / 4 * 3 / (4096 + 1000));
    }
}

Test(kv_plan, the_pool_gives_way_to_what_was_measured)
{
    struct kv_wishes wanted = under(NEEDS + 400 * MIB, 0, 1);
    uint32_t before = plan_of(wanted).n_blocks;
    wanted.taken.process_bytes += 100 * MIB;
    cr_expect_eq(before - plan_of(wanted).n_blocks, 75 * MIB / 4096);
    wanted.taken.process_bytes -= 100 * MIB;
    wanted.taken.mapped_bytes += 100 * MIB;
    cr_expect_eq(before - plan_of(wanted).n_blocks, 75 * MIB / 4096);
}

Test(kv_plan, starts_that_differ_by_pages_have_one_pool)
{
    cr_expect_eq(kv_plan_round(0), 0);
    cr_expect_eq(kv_plan_round(1), kv_plan_round(8 * MIB));
    cr_expect_eq(kv_plan_round(17 * MIB), 24 * MIB);
}

Test(kv_plan, what_is_said_counts_under_a_limit_too)
{
    struct kv_wishes told = under(1, 100 * MIB, 1);
    told.kv_memory = 8192;
    expect_plan(told, 2, KV_PLAN_AS_TOLD);
}

Test(kv_plan, a_limit_that_leaves_nothing_is_refused)
{
    struct error error = {""};
    struct kv_plan plan;
    const struct kv_wishes wanted = under(NEEDS + 100 * MIB, 100 * MIB, 1);
    cr_assert_eq(kv_plan_make(&SMALL, &wanted, &plan, &error), STATUS_NO_MEMORY);
    cr_assert(strstr(error.text, "memory limit of 196.0 MiB (1 workers share it) leaves nothing"),
              "%s", error.text);
}

/* No limit, and a machine that has free_bytes beside weights and processes; nobody has taken any yet. */
static struct kv_wishes on_machine(uint64_t free_bytes, uint32_t n_sharers)
{
    struct kv_wishes wanted = under(0, 100 * MIB, n_sharers);
    wanted.room_bytes = free_bytes + n_sharers * NEEDS + 100 * MIB;
    wanted.left_bytes = wanted.room_bytes;
    return wanted;
}

Test(kv_plan, without_a_limit_the_pool_is_a_third_of_what_is_free_for_all_sharers)
{
    expect_plan(on_machine(6144 * MIB, 1), 2048 * MIB / 4096, KV_PLAN_FREE);
    expect_plan(on_machine(6144 * MIB, 2), 1024 * MIB / 4096, KV_PLAN_FREE);
    expect_plan(on_machine(12288 * MIB, 4), 1024 * MIB / 4096, KV_PLAN_FREE);
    expect_plan(on_machine(64ull << 30, 2), 4096 * MIB / 4096, KV_PLAN_BATCH);
    cr_expect_eq(plan_of(on_machine(6144 * MIB, 2)).free_bytes, 6144 * MIB);
}

Test(kv_plan, one_whole_context_may_take_half_of_what_is_free)
{
    expect_plan(on_machine(4098 * MIB, 2), 1024 * MIB / 4096, KV_PLAN_CONTEXT);
    expect_plan(on_machine(4090 * MIB, 2), 4090 * MIB / 4 / 4096, KV_PLAN_CONTEXT);
}

Test(kv_plan, a_pool_is_no_less_than_the_least_and_no_more_than_the_batch)
{
    struct kv_wishes wanted = on_machine(100 * MIB, 2);
    expect_plan(wanted, KV_MEMORY_LEAST / 4096, KV_PLAN_LEAST);
    wanted.room_bytes = wanted.left_bytes = 0;
    expect_plan(wanted, KV_MEMORY_LEAST / 4096, KV_PLAN_LEAST);
    wanted.step.context_tokens = 1024;
    expect_plan(wanted, 64 * 4, KV_PLAN_BATCH);
    wanted.step.context_tokens = 4096;
    wanted.step.n_sequences = 4096;
    expect_plan(wanted, KV_MEMORY_LEAST / 4096, KV_PLAN_LEAST);
}

/* Each sees what the ones before it have taken, and their pools. */
Test(kv_plan, sharers_that_start_one_after_the_other_have_equal_pools)
{
    for (uint32_t n = 1; n <= 16; n++) {
        struct kv_wishes wanted = on_machine(n * 1536 * MIB, n);
        wanted.step.context_tokens = 1 << 20;
        for (uint32_t i = 0; i < n; i++) {
            struct kv_plan plan = plan_of(wanted);
            cr_assert_eq(plan.n_blocks, 512 * MIB / 4096, "%u blocks of sharer %u of %u",
                         plan.n_blocks, i, n);
            wanted.left_bytes -= plan.n_blocks * 4096ull + NEEDS;
        }
    }
}

Test(kv_plan, a_worker_takes_half_at_most_of_what_is_left_now)
{
    struct kv_wishes wanted = on_machine(6144 * MIB, 1);
    wanted.left_bytes = 1000 * MIB + KV_LOAD_BYTES + 100 * MIB;
    expect_plan(wanted, 500 * MIB / 4096, KV_PLAN_CONTEXT);
    wanted.left_bytes = 2200 * MIB + KV_LOAD_BYTES + 100 * MIB;
    wanted.step.context_tokens = 1 << 20;
    wanted.step.n_sequences = 64;
    expect_plan(wanted, 1100 * MIB / 4096, KV_PLAN_FREE);
}

/* On a device with memory of its own, of which so much is this worker's. */
static struct kv_wishes on_device(uint64_t device_bytes, uint64_t taken_bytes)
{
    struct kv_wishes wanted = under(NEEDS, 0, 2); /* the host's limit leaves nothing */
    wanted.device_bytes = device_bytes;
    wanted.taken.device_bytes = taken_bytes;
    return wanted;
}

Test(kv_plan, on_a_device_the_pool_is_what_the_workers_part_of_it_leaves)
{
    expect_plan(on_device(900 * MIB, 300 * MIB), 600 * MIB / 4096, KV_PLAN_DEVICE);
    expect_plan(on_device(900 * MIB, 900 * MIB - 4096), 1, KV_PLAN_DEVICE);
    expect_plan(on_device(64ull << 30, 1 * MIB), 4ull * (4 << 20) / 16, KV_PLAN_BATCH);
    struct kv_wishes told = on_device(900 * MIB, 900 * MIB - 3ull * 4096);
    told.kv_blocks = 3;
    expect_plan(told, 3, KV_PLAN_AS_TOLD);
}

static void expect_no_room(struct kv_wishes wanted, const char *part)
{
    struct error error = {""};
    struct kv_plan plan;
    cr_expect_eq(kv_plan_make(&SMALL, &wanted, &plan, &error), STATUS_NO_MEMORY);
    cr_expect(strstr(error.text, part), "%s", error.text);
}

Test(kv_plan, blocks_that_are_asked_for_fit_the_workers_part_of_its_device)
{
    struct kv_wishes told = on_device(900 * MIB, 900 * MIB - 3ull * 4096);
    told.kv_blocks = 4;
    expect_no_room(told,
                   "4 KV blocks of 4.0 KiB need 0.0 MiB of the device beside 900.0 MiB for "
                   "weights and work, and this worker's part (device_memory) is 900.0 MiB: lower "
                   "kv_memory or kv_blocks, or raise device_memory");
}

Test(kv_plan, other_processes_may_leave_less_of_a_device_than_a_workers_part)
{
    struct kv_wishes wanted = on_device(900 * MIB, 300 * MIB);
    wanted.device_room_bytes = 500 * MIB;
    expect_plan(wanted, 200 * MIB / 4096, KV_PLAN_ROOM);
    wanted.device_room_bytes = 2000 * MIB;
    expect_plan(wanted, 600 * MIB / 4096, KV_PLAN_DEVICE);
    wanted.device_room_bytes = 299 * MIB;
    expect_no_room(
        wanted,
        "1 KV blocks of 4.0 KiB need 0.0 MiB of the device beside 300.0 MiB for "
        "weights and work, and others leave it 299.0 MiB: end what else is on the device, lower "
        "prefill_batch_tokens or take weights int8");
    wanted.device_room_bytes = 500 * MIB;
    wanted.kv_memory = 201 * MIB;
    expect_no_room(wanted, "51456 KV blocks of 4.0 KiB need 201.0 MiB of the device");
    expect_no_room(wanted,
                   "500.0 MiB: lower kv_memory or kv_blocks, or end other processes on the device");
}

/* What a pool that others map takes is whole pieces: within the part, too. */
Test(kv_plan, a_pool_in_whole_pieces_fits_with_all_of_its_last_one)
{
    struct kv_wishes wanted = on_device(900 * MIB, 897 * MIB - 4096);
    wanted.pool_step_bytes = 2 * MIB;
    expect_plan(wanted, 2 * MIB / 4096, KV_PLAN_DEVICE);
    wanted.kv_blocks = 2 * MIB / 4096 + 1;
    expect_no_room(wanted, "513 KV blocks of 4.0 KiB need 2.0 MiB of the device");
    wanted.kv_blocks = 0;
    wanted.taken.device_bytes = 898 * MIB + 4096;
    expect_no_room(wanted, "this worker's part (device_memory) is 900.0 MiB: raise device_memory");
}

Test(kv_plan, a_part_of_a_device_that_leaves_nothing_is_refused)
{
    expect_no_room(on_device(300 * MIB + 4095, 300 * MIB),
                   "this worker's part (device_memory) is 300.0 MiB: raise device_memory, lower "
                   "prefill_batch_tokens or take weights int8");
}

Test(kv_plan, workers_of_one_device_have_parts_that_fit_it_together)
{
    const uint64_t memory = 80ull << 30;
    for (uint32_t n = 1; n < 5; n++)
        cr_expect_leq(n * kv_plan_device_bytes(memory, 0, n), memory / 10 * 9);
    cr_expect_eq(kv_plan_device_bytes(memory, 0, 0), kv_plan_device_bytes(memory, 0, 1));
    cr_expect_eq(kv_plan_device_bytes(memory, 5 * MIB, 2), 5 * MIB, "as told, each");
    cr_expect_eq(kv_plan_device_bytes(0, 5 * MIB, 2), 0, "a host has none of its own");
}

Test(kv_plan, memory_of_less_than_a_block_is_refused)
{
    struct error error = {""};
    struct kv_plan plan;
    const struct kv_wishes told = wishes(1024, 4, 0, 4095);
    cr_assert_eq(kv_plan_make(&SMALL, &told, &plan, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "kv_memory of 4095 bytes"), "%s", error.text);
}

Test(kv_plan, contexts_fit_in_whole_blocks)
{
    cr_expect_eq(kv_plan_context_fit(&SMALL, 0, 1, 1000), 0);
    cr_expect_eq(kv_plan_context_fit(&SMALL, 4095, 1, 1000), 0);
    cr_expect_eq(kv_plan_context_fit(&SMALL, 3 * 4096, 1, 1000), 48);
    cr_expect_eq(kv_plan_context_fit(&SMALL, 3 * 4096, 2, 1000), 16);
    cr_expect_eq(kv_plan_context_fit(&SMALL, 63 * 4096, 1, 1000), 1000);
    cr_expect_eq(kv_plan_context_fit(&SMALL, UINT64_MAX, 2, 1000), 1000);
}
