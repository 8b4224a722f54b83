/* kernel_trial: among sets of the same bits a set that is clearly faster is chosen, for products and attention apart. */
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/forward/kernel_trial.h"
#include "model/forward/numerics_id.h"

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
    uint64_t now_ns;    /* of a clock that goes on while a part is measured alone */
    uint64_t extra_ns;  /* by which each part is late */
    uint64_t latest_ns; /* when the last part began */
};

static uint64_t clock_of(void *arg)
{
    return ((struct table *)arg)->now_ns;
}

static uint64_t look_up(void *arg, const struct kernel_trial *trial, const struct kernels *set,
                        enum kernel_part part, uint64_t until_ns)
{
    struct table *table = arg;
    uint32_t i = 0;
    while (table->sets[i] != set)
        i++;
    (void)trial;
    table->n_calls++;
    table->latest_ns = table->now_ns;
    cr_expect_gt(until_ns, table->now_ns);
    table->now_ns = until_ns + table->extra_ns;
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
    const struct kernel_trial_ways ways = {clock_of, look_up, &table};
    make_sets(NAMES, NAMES, n, all, sets);
    memcpy(table.times_ns, times_ns, n * sizeof *times_ns);
    kernel_trial_choose(NULL, sets, n, &ways, &choice);
    cr_expect_str_eq(choice.products->name, products);
    cr_expect_str_eq(choice.attention->name, attention);
    cr_expect_eq(table.n_calls, n > 1 ? 2 * n : 0, "one set alone is not measured");
    cr_expect_eq(table.now_ns, n > 1 ? KERNEL_TRIAL_NS : 0, "all of the time is used, and no more");
    cr_expect_eq(choice.took_ns, table.now_ns);
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

/* A part that is late takes the time of those behind it. */
Test(kernel_trial, no_part_begins_when_the_time_is_over)
{
    static const char *const NAMES[] = {"a", "b", "c", "d"};
    struct kernels all[4];
    const struct kernels *sets[4];
    static const uint64_t LATE_NS[] = {0, KERNEL_TRIAL_NS / 16, KERNEL_TRIAL_NS};
    for (uint32_t late = 0; late < 3; late++) {
        struct kernel_trial_choice choice;
        struct table table = {.sets = sets,
                              .times_ns = {{900, 900}, {900, 900}, {900, 900}, {100, 100}},
                              .now_ns = 77,
                              .extra_ns = LATE_NS[late]};
        const struct kernel_trial_ways ways = {clock_of, look_up, &table};
        make_sets(NAMES, NAMES, 4, all, sets);
        kernel_trial_choose(NULL, sets, 4, &ways, &choice);
        cr_expect_lt(table.latest_ns, 77 + KERNEL_TRIAL_NS);
        cr_expect_leq(choice.took_ns, KERNEL_TRIAL_NS + table.extra_ns);
        cr_expect_str_eq(choice.products->name, late < 2 ? "d" : "a", "late %u", late);
        cr_expect_str_eq(choice.attention->name, late < 1 ? "d" : "a", "late %u", late);
        cr_expect_eq(choice.times_ns[3][KERNEL_ATTENTION], late < 1 ? 100 : 0);
    }
}

Test(kernel_trial, every_set_of_this_machine_can_be_measured, .timeout = 300)
{
    static const enum weight_format FORMATS[] = {WEIGHTS_AUTO, WEIGHTS_INT8, WEIGHTS_INT8_GROUP32};
    static const enum dtype TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    const struct model_config config = {
        .hidden = 576, .ffn = 1536, .n_heads = 9, .n_kv_heads = 3, .head_dim = 64};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t f = 0; f < 9; f++) {
            const struct kernel_trial trial = {.config = &config,
                                               .weight_dtype = TYPES[f % 3],
                                               .weights = FORMATS[f / 3],
                                               .cache = TYPES[f % 3]};
            if (trial.weights != WEIGHTS_AUTO && !list[i]->gemm_pack)
                continue;
            cr_expect_gt(kernel_trial_ways.time_ns(NULL, &trial, list[i], KERNEL_PRODUCTS, 0), 0,
                         "%s format %u", list[i]->name, f);
            cr_expect_gt(kernel_trial_ways.time_ns(NULL, &trial, list[i], KERNEL_ATTENTION, 0), 0,
                         "%s", list[i]->name);
        }
}
