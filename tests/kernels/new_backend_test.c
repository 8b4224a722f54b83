/* The example of docs/new-backend.md works: it agrees with the reference and refuses the rest. */
#include "kernels/kernels.h"
#include "tests/kernels/support/plain_backend.h"
#include "tests/kernels/support/values.h"
#include "tests/kernels/support/world.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct world WORLD = {.seed = 5,
                                   .n_heads = 6,
                                   .n_kv_heads = 2,
                                   .head_dim = 40,
                                   .block_tokens = 16,
                                   .chunk_tokens = 32,
                                   .n_sequences = 3,
                                   .ids = {1, 2, 3},
                                   .prompt_lens = {1, 70, 33},
                                   .lens = {9, 75, 33}};

Test(new_backend, the_example_agrees_with_the_reference)
{
    const struct kernels *reference;
    cr_assert_eq(kernels_select("reference", &reference, NULL), STATUS_OK);
    struct kernels plain = *reference;
    plain.attention = &plain_attention;
    struct guarded expected = world_run(&WORLD, reference, NULL);
    struct guarded output = world_run(&WORLD, &plain, NULL);
    cr_assert_lt(values_error(output.data, expected.data, world_floats(&WORLD)), 1e-5);
    guarded_destroy(&expected);
    guarded_destroy(&output);
}

Test(new_backend, the_example_refuses_what_it_does_not_compute)
{
    struct attention *attention = NULL;
    struct error error = {""};
    struct attention_config config = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .window = 16};
    cr_assert_eq(plain_attention.create(&config, NULL, &attention, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "A13 sliding window (window) is not computed"), "%s", error.text);
    config.window = 0;
    config.cache = DTYPE_BF16;
    cr_assert_eq(plain_attention.create(&config, NULL, &attention, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "A29 "), "%s", error.text);
    cr_assert_null(attention);
}
