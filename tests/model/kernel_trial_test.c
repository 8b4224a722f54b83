/* kernel_trial: among sets of the same bits a set that is clearly faster is chosen, for products and attention apart. */
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/kernel_trial.h"
#include "model/numerics_id.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Sets of machines that a test does not run on: names alone. */
static struct kernels named(const char *name, const struct attention_backend *attention)
{
    return (struct kernels){.name = name, .attention = attention};
}

static struct attention_backend backends[8];

static void make_sets(const char *const *names, const char *const *attentions, uint32_t n,
                      struct kernels *sets_out, const struct kernels **list_out)
{
    for (uint32_t i = 0; i < n; i++) {
        backends[i].name = attentions[i];
        sets_out[i] = named(names[i], &backends[i]);
        list_out[i] = &sets_out[i];
    }
}

static uint32_t sets_of(enum weight_format weights, enum context_math math,
                        const char *const *names, const char *const *attentions, uint32_t n,
                        char text_out[256])
{
    struct kernels all[8];
    const struct kernels *list[8], *sets[KERNEL_TRIAL_MAX];
    const struct kernel_trial trial = {.weights = weights, .math = math};
    make_sets(names, attentions, n, all, list);
    uint32_t n_sets = kernel_trial_sets(&trial, list, n, sets);
    text_out[0] = '\0';
    for (uint32_t i = 0; i < n_sets; i++)
        snprintf(text_out + strlen(text_out), 256 - strlen(text_out), "%s ", sets[i]->name);
    return n_sets;
}

Test(kernel_trial, sets_with_the_bits_of_the_default_take_part)
{
    static const char *const NAMES[] = {"reference", "scalar",      "sse2",     "avx2",
                                        "avx512",    "avx512_vnni", "amx_bf16", "amx"};
    static const char *const ATTENTIONS[] = {"reference", "scalar", "sse2", "avx2",
                                             "avx512",    "avx512", "amx",  "amx"};
    char text[256];
    sets_of(WEIGHTS_AUTO, CONTEXT_MATH_COMPUTE, NAMES, ATTENTIONS, 8, text);
    cr_expect_str_eq(text, "amx avx512_vnni avx512 avx2 ");
    sets_of(WEIGHTS_INT8, CONTEXT_MATH_COMPUTE, NAMES, ATTENTIONS, 8, text);
    cr_expect_str_eq(text, "amx avx512_vnni avx512 avx2 ");
    sets_of(WEIGHTS_AUTO, CONTEXT_MATH_BF16, NAMES, ATTENTIONS, 8, text);
    cr_expect_str_eq(text, "amx ", "its attention rounds in its own way");
    cr_expect_eq(sets_of(WEIGHTS_AUTO, CONTEXT_MATH_COMPUTE, NAMES, ATTENTIONS, 4, text), 1);
    cr_expect_str_eq(text, "avx2 ", "nothing to choose");
    cr_expect_eq(sets_of(WEIGHTS_AUTO, CONTEXT_MATH_COMPUTE, NAMES, ATTENTIONS, 2, text), 1);
    cr_expect_str_eq(text, "scalar ", "the default takes part, whatever it is");
}

/* ---- the choice, of times handed in ---- */

struct table {
    const struct kernels *const *sets;
    uint64_t times_ns[4][2];
    uint32_t n_calls;
    uint64_t budget_ns;
};

static uint64_t look_up(void *arg, const struct kernels *set, enum kernel_part part,
                        uint64_t budget_ns)
{
    struct table *table = arg;
    uint32_t i = 0;
    while (table->sets[i] != set)
        i++;
    table->n_calls++;
    table->budget_ns += budget_ns;
    return table->times_ns[i][part];
}

static void expect_choice(const uint64_t times_ns[][2], uint32_t n, const char *products,
                          const char *attention)
{
    static const char *const NAMES[] = {"a", "b", "c", "d"};
    struct kernels all[4];
    const struct kernels *sets[4];
    struct kernel_trial_choice choice;
    struct table table = {.sets = sets};
    make_sets(NAMES, NAMES, n, all, sets);
    memcpy(table.times_ns, times_ns, n * sizeof *times_ns);
    kernel_trial_choose(sets, n, look_up, &table, &choice);
    cr_expect_str_eq(choice.products->name, products);
    cr_expect_str_eq(choice.attention->name, attention);
    cr_expect_eq(table.n_calls, n > 1 ? 2 * n : 0, "one set alone is not measured");
    cr_expect_leq(table.budget_ns, KERNEL_TRIAL_NS);
}

Test(kernel_trial, the_default_stays_unless_another_is_a_tenth_faster)
{
    expect_choice((const uint64_t[][2]){{1000, 1000}}, 1, "a", "a");
    expect_choice((const uint64_t[][2]){{1000, 1000}, {950, 901}}, 2, "a", "a");
    expect_choice((const uint64_t[][2]){{1000, 1000}, {900, 1200}}, 2, "b", "a");
    expect_choice((const uint64_t[][2]){{1000, 1000}, {1200, 500}}, 2, "a", "b");
    expect_choice((const uint64_t[][2]){{1000, 1000}, {800, 700}, {700, 800}, {750, 750}}, 4, "c",
                  "b");
    expect_choice((const uint64_t[][2]){{1000, 1000}, {700, 700}, {700, 700}}, 3, "b", "b");
}

Test(kernel_trial, what_could_not_be_measured_is_not_chosen)
{
    expect_choice((const uint64_t[][2]){{1000, 1000}, {0, 0}}, 2, "a", "a");
    expect_choice((const uint64_t[][2]){{0, 0}, {900, 900}}, 2, "a", "a");
}

Test(kernel_trial, every_set_of_this_machine_can_be_measured, .timeout = 300)
{
    static const enum weight_format FORMATS[] = {WEIGHTS_AUTO, WEIGHTS_INT8, WEIGHTS_INT8_GROUP32};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    const struct model_config config = {
        .hidden = 576, .ffn = 1536, .n_heads = 9, .n_kv_heads = 3, .head_dim = 64};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t f = 0; f < 3; f++) {
            struct kernel_trial trial = {
                .config = &config, .weights = FORMATS[f], .cache = DTYPE_BF16};
            if (FORMATS[f] != WEIGHTS_AUTO && !list[i]->gemm_pack)
                continue;
            cr_expect_gt(kernel_trial_time(&trial, list[i], KERNEL_PRODUCTS, 0), 0, "%s format %u",
                         list[i]->name, f);
            cr_expect_gt(kernel_trial_time(&trial, list[i], KERNEL_ATTENTION, 0), 0, "%s",
                         list[i]->name);
        }
}
