/* kv_plan: blocks as asked for, else what the batch can use within bounds; contexts that memory holds. */
#include "worker/kv_plan.h"

#include <criterion/criterion.h>
#include <string.h>

/* 2 * 2 * 4 * 8 * 16 elements of 2 bytes: 4 KiB a block */
static const struct geometry SMALL = {
    .n_layers = 2, .n_kv_heads = 4, .head_dim = 8, .block_tokens = 16, .dtype = KV_BF16};

static uint32_t blocks_of(struct kv_wishes wishes)
{
    struct error error = {""};
    uint32_t n_blocks = 0;
    cr_assert_eq(geometry_block_bytes(&SMALL), 4096);
    cr_assert_eq(kv_plan_blocks(&SMALL, &wishes, &n_blocks, &error), STATUS_OK, "%s", error.text);
    return n_blocks;
}

Test(kv_plan, blocks_are_those_asked_for_else_what_the_batch_can_use)
{
    cr_expect_eq(blocks_of((struct kv_wishes){1024, 4, 7, 8192}), 7);
    cr_expect_eq(blocks_of((struct kv_wishes){1024, 4, 0, 8192 + 4095}), 2);
    cr_expect_eq(blocks_of((struct kv_wishes){1024, 4, 0, 0}), 64 * 4);
    cr_expect_eq(blocks_of((struct kv_wishes){1024, 4096, 0, 0}), KV_MEMORY_DEFAULT / 4096);
    cr_expect_eq(blocks_of((struct kv_wishes){4 << 20, 4, 0, 0}), (4 << 20) / 16);
}

Test(kv_plan, memory_of_less_than_a_block_is_refused)
{
    struct error error = {""};
    uint32_t n_blocks = 0;
    const struct kv_wishes wishes = {1024, 4, 0, 4095};
    cr_assert_eq(kv_plan_blocks(&SMALL, &wishes, &n_blocks, &error), STATUS_INVALID_ARGUMENT);
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
