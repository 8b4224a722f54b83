/* worker_kernels: what a start computes with when it measures, and when it does not; the trial has the model's own types. */
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "tests/worker_common/support/small_model.h"
#include "worker_common/worker_kernels.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Sets that could be of any machine, with the same bits, and how fast each is: the last one is the default. */
#define N_SETS 3
static const char *const NAMES[N_SETS] = {"avx2", "avx512", "avx512_vnni"};
static struct attention_backend backends[N_SETS];
static struct kernels all[N_SETS];

struct machine {
    uint64_t times_ns[N_SETS][2];
    uint64_t now_ns, late_ns;
    uint32_t n_calls;
    struct kernel_trial seen;
    uint32_t hidden, head_dim; /* of the model of the last trial */
};

static uint64_t now(void *arg)
{
    return ((struct machine *)arg)->now_ns;
}

static uint64_t measure(void *arg, const struct kernel_trial *trial, const struct kernels *set,
                        enum kernel_part part, uint64_t until_ns)
{
    struct machine *machine = arg;
    machine->n_calls++;
    machine->seen = *trial;
    machine->hidden = trial->config->hidden;
    machine->head_dim = trial->config->head_dim;
    machine->now_ns = until_ns + machine->late_ns;
    return machine->times_ns[set - all][part];
}

static struct worker_kernels choose(const struct worker_options *options, struct machine *machine)
{
    const struct kernels *list[N_SETS];
    const struct worker worker = {0};
    const struct kernel_trial_ways ways = {now, measure, machine};
    const struct worker_kernels_trial trial = {list, N_SETS, &ways};
    struct worker_kernels kernels = {0};
    struct error error = {""};
    for (uint32_t i = 0; i < N_SETS; i++) {
        backends[i].name = NAMES[i];
        all[i] = (struct kernels){.name = NAMES[i], .attention = &backends[i]};
        list[i] = &all[i];
    }
    cr_assert_eq(worker_kernels_choose(&worker, options, &trial, &kernels, &error), STATUS_OK, "%s",
                 error.text);
    return kernels;
}

static void forget_environment(void)
{
    unsetenv("KVFERRY_CPU");
    unsetenv("KVFERRY_ATTENTION");
}

TestSuite(worker_kernels, .init = forget_environment);

#define DEMO KVFERRY_SOURCE_DIR "/model/demo"

Test(worker_kernels, the_fastest_is_chosen_for_products_and_attention_apart)
{
    const struct worker_options options = {.folder = DEMO};
    struct machine machine = {.times_ns = {{500, 900}, {900, 500}, {900, 900}}};
    const struct worker_kernels kernels = choose(&options, &machine);
    cr_expect_str_eq(kernels.products, "avx2");
    cr_expect_str_eq(kernels.attention, "avx512");
    cr_expect_eq(kernels.chosen, WORKER_KERNELS_MEASURED);
    cr_expect_eq(machine.n_calls, 2 * N_SETS);
    cr_expect_leq(machine.now_ns, KERNEL_TRIAL_NS);
}

Test(worker_kernels, a_machine_that_stalls_keeps_the_default)
{
    const struct worker_options options = {.folder = DEMO};
    struct machine machine = {.times_ns = {{500, 500}, {900, 900}, {900, 900}},
                              .late_ns = KERNEL_TRIAL_NS};
    const struct worker_kernels kernels = choose(&options, &machine);
    cr_expect_str_eq(kernels.products, "avx512_vnni");
    cr_expect_str_eq(kernels.attention, "avx512_vnni");
    cr_expect_eq(kernels.chosen, WORKER_KERNELS_DEFAULT, "nothing was compared");
    cr_expect_eq(machine.n_calls, 1);
}

Test(worker_kernels, what_is_configured_is_not_measured)
{
    const struct worker_options products = {.folder = DEMO, .cpu_kernels = "avx512"};
    const struct worker_options attention = {.folder = DEMO, .attention_kernels = "scalar"};
    struct machine machine = {.times_ns = {{500, 500}, {900, 900}, {900, 900}}};
    struct worker_kernels kernels = choose(&products, &machine);
    cr_expect_eq(machine.n_calls, 0);
    cr_expect_str_eq(kernels.products, "avx512");
    cr_expect_eq(kernels.chosen, WORKER_KERNELS_CONFIGURED);
    kernels = choose(&attention, &machine);
    cr_expect_str_eq(kernels.products, "avx2", "products are measured all the same");
    cr_expect_str_eq(kernels.attention, "scalar");
    setenv("KVFERRY_CPU", "scalar", 1);
    machine.n_calls = 0;
    kernels = choose(&attention, &machine);
    cr_expect_eq(machine.n_calls, 0);
    cr_expect_eq(kernels.chosen, WORKER_KERNELS_CONFIGURED);
    unsetenv("KVFERRY_CPU");
}

Test(worker_kernels, the_trial_has_the_models_types_and_shapes)
{
    static const struct {
        const char *folder_dtype;
        enum worker_kv_dtype kv;
        enum weight_format weights;
        enum dtype weight, cache;
    } CASES[] = {
        {"F32", WORKER_KV_AUTO, WEIGHTS_AUTO, DTYPE_F32, DTYPE_F32},
        {"F16", WORKER_KV_AUTO, WEIGHTS_AUTO, DTYPE_F16, DTYPE_F16},
        {"BF16", WORKER_KV_AUTO, WEIGHTS_AUTO, DTYPE_BF16, DTYPE_BF16},
        {"F32", WORKER_KV_BF16, WEIGHTS_INT8, DTYPE_F32, DTYPE_BF16},
        {"F16", WORKER_KV_F32, WEIGHTS_AUTO, DTYPE_F16, DTYPE_F32},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *folder = small_model_make(CASES[i].folder_dtype);
        const struct worker_options options = {
            .folder = folder, .kv_dtype = CASES[i].kv, .weights = CASES[i].weights};
        struct machine machine = {.times_ns = {{9, 9}, {9, 9}, {9, 9}}};
        (void)choose(&options, &machine);
        cr_expect_eq(machine.seen.weight_dtype, CASES[i].weight, "case %zu", i);
        cr_expect_eq(machine.seen.cache, CASES[i].cache, "case %zu", i);
        cr_expect_eq(machine.seen.weights, CASES[i].weights, "case %zu", i);
        cr_expect_eq(machine.hidden, SMALL_MODEL_HIDDEN);
        cr_expect_eq(machine.head_dim, SMALL_MODEL_HEAD_DIM);
        small_model_remove(folder);
    }
}

Test(worker_kernels, a_folder_that_is_none_is_an_error_before_any_measurement)
{
    const struct kernels *list[N_SETS] = {&all[0], &all[1], &all[2]};
    const struct worker worker = {0};
    struct machine machine = {0};
    const struct kernel_trial_ways ways = {now, measure, &machine};
    const struct worker_kernels_trial trial = {list, N_SETS, &ways};
    const struct worker_options options = {.folder = "/nowhere"};
    struct worker_kernels kernels = {.products = "untouched"};
    struct error error = {""};
    for (uint32_t i = 0; i < N_SETS; i++) {
        backends[i].name = NAMES[i];
        all[i] = (struct kernels){.name = NAMES[i], .attention = &backends[i]};
    }
    cr_expect_neq(worker_kernels_choose(&worker, &options, &trial, &kernels, &error), STATUS_OK);
    cr_expect(strstr(error.text, "/nowhere"), "%s", error.text);
    cr_expect_str_eq(kernels.products, "untouched");
    cr_expect_eq(machine.n_calls, 0);
}
