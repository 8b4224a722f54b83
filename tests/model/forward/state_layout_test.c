/* state_layout: each part of a state lies in one block, apart from all others, in as few blocks as their order allows. */
#include "model/forward/state_layout.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(state_layout, .description = ONE_THREAD);

static struct model_config config_of(uint32_t n_layers, uint32_t n_heads, uint32_t dim)
{
    struct model_config config = {.n_layers = n_layers,
                                  .recurrent = {.n_key_heads = 2,
                                                .n_heads = n_heads,
                                                .key_dim = dim,
                                                .value_dim = 2 * dim,
                                                .conv_width = 4}};
    for (uint32_t layer = 0; layer + 1 < n_layers; layer++) /* the last one has attention */
        config.is_recurrent[layer] = layer % 4 != 3;
    return config;
}

static void check(const struct model_config *config, size_t block_bytes)
{
    static uint8_t is_used[1 << 20];
    struct state_layout layout;
    struct error error = {""};
    size_t bytes = 0;
    cr_assert_eq(state_layout_create(config, block_bytes, &error, &layout), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(layout.n_blocks, state_layout_blocks(config, block_bytes));
    cr_assert_leq(layout.n_blocks * block_bytes, sizeof is_used);
    memset(is_used, 0, sizeof is_used);
    for (uint32_t layer = 0; layer < layout.n_layers; layer++)
        for (uint32_t i = 0; i <= layout.n_heads; i++) {
            const struct state_part part = state_layout_part(&layout, layer, i);
            const size_t n = i == 0 ? layout.rows_bytes : layout.matrix_bytes;
            cr_assert(part.block < layout.n_blocks && part.at + n <= block_bytes);
            cr_assert_eq(part.at % STATE_PART_ALIGNMENT, 0);
            for (size_t k = 0; k < n; k++)
                cr_assert_eq(is_used[part.block * block_bytes + part.at + k]++, 0);
            bytes += n;
        }
    cr_assert_eq(bytes, state_layout_bytes(config));
    const size_t full = block_bytes - state_layout_part_bytes(config) - STATE_PART_ALIGNMENT;
    cr_assert_leq((layout.n_blocks - 1) * full, bytes + bytes / 8, "%u blocks of %zu for %zu",
                  layout.n_blocks, block_bytes, bytes);
    state_layout_finish(&layout);
}

Test(state_layout, each_part_has_a_place_of_its_own)
{
    for (uint32_t n_heads = 2; n_heads <= 8; n_heads += 2)
        for (uint32_t dim = 8; dim <= 24; dim += 8) {
            const struct model_config config = config_of(9, n_heads, dim);
            const size_t part = state_layout_part_bytes(&config);
            for (size_t more = 1; more < 4 * part; more += 1000)
                check(&config, part + STATE_PART_ALIGNMENT + more);
            check(&config, 1 << 20);
            cr_assert_eq(state_layout_blocks(&config, 1 << 20), 1);
        }
}

Test(state_layout, a_part_that_does_not_fit_is_refused_with_both_numbers)
{
    const struct model_config config = config_of(5, 4, 16);
    struct state_layout layout;
    struct error error = {""};
    cr_assert_eq(state_layout_part_bytes(&config), 16 * 32 * sizeof(float) + 256);
    cr_assert_eq(state_layout_blocks(&config, 2000), UINT32_MAX);
    cr_assert_eq(state_layout_create(&config, 2000, &error, &layout), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "a block has 2000 bytes, and a part of a layer's recurrent state "
                                 "has 2304: raise kv_block_tokens");
    state_layout_finish(&layout);
}

Test(state_layout, a_model_without_such_layers_has_none)
{
    const struct model_config config = {.n_layers = 3};
    struct state_layout layout;
    struct error error = {""};
    cr_assert_eq(state_layout_blocks(&config, 64), 0);
    cr_assert_eq(state_layout_create(&config, 64, &error, &layout), STATUS_OK);
    cr_assert_eq(layout.n_blocks, 0);
    state_layout_finish(&layout);
}
