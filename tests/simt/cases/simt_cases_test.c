/* The attention of kernels/cuda, on the harness, gives what the reference gives within the dtype's error: every feature of
 * its column alone, in pairs and in random triples, and refuses the others. KVFERRY_CASE=n runs one case. */
#include "device/device_ops.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/cases/compare.h"
#include "tests/simt/simt_device.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCHEDULES = 4, PARTS = 8, FAILURES_SHOWN = 10 };
/* A case in PARTS is of each: its CTAs are held against each other, too; it is repeated. */
enum part { IS_SHARING, IS_REPEATED = 3 };

/* One test: a back end in one order of threads and copies, the cases whose number falls to it. */
struct table {
    const char *name;
    const struct attention_backend *backend;
    uint32_t schedule;
    uint32_t n_computed, n_refused, n_failed;
    double worst_of_bound;
    uint32_t worst_case;
};

/* Memory of the device that nobody wrote is NaN. */
static enum status (*real_allocate)(struct device *, size_t, uint8_t **);

static enum status poisoned(struct device *device, size_t bytes, uint8_t **base_out)
{
    enum status status = real_allocate(device, bytes, base_out);
    if (status == STATUS_OK)
        memset(*base_out, 0xff, bytes);
    return status;
}

/* KVFERRY_SIMT_ALL: everything that the table has, and all that there is to look at. */
static bool is_all(void)
{
    return getenv("KVFERRY_SIMT_ALL") || getenv("KVFERRY_CASE");
}

/* Mixed, so that a sample of the cases has all parts. */
static bool is_part(uint32_t number, enum part part)
{
    const uint32_t turn = number / SCHEDULES;
    return is_all() || (turn + turn / PARTS + turn / PARTS / PARTS) % PARTS == (uint32_t)part;
}

static struct device *open_device(uint32_t schedule, uint32_t number)
{
    static struct device_ops ops;
    struct device *device = simt_device_open(
        &(struct simt_options){.copies_late = schedule % 2 == 1,
                               .seed = schedule < 2 ? 0 : 77 + schedule,
                               .only_bounds = !is_part(number, IS_SHARING)});
    struct error error = {""};
    real_allocate = device->ops->allocate;
    ops = *device->ops;
    ops.allocate = poisoned;
    device->ops = &ops;
    cr_assert_eq(device_load(device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    return device;
}

static void fail(struct table *table, const struct attention_case *c, const char *what,
                 const char *why)
{
    table->n_failed++;
    if (table->n_failed > FAILURES_SHOWN)
        return;
    case_print(c);
    fprintf(stderr, "%s, schedule %u, case %u: %s %s\n", table->name, table->schedule, c->number,
            what, why);
}

/* Of a run on a device of its own. */
static struct case_result run(const struct case_data *data, const struct case_options *options,
                              uint32_t schedule)
{
    struct case_options on_device = *options;
    struct case_result result;
    on_device.device = open_device(schedule, data->test_case->number);
    on_device.adopt = simt_device_adopt;
    device_bind(on_device.device);
    case_run(data, &on_device, &result);
    device_bind(NULL);
    device_close(on_device.device);
    return result;
}

static void check_repeat(struct table *table, const struct case_data *data,
                         const struct case_result *first, const struct case_options *options,
                         const char *what)
{
    const struct attention_case *c = data->test_case;
    struct case_result again = run(data, options, (table->schedule + 1) % SCHEDULES);
    bool is_same = options->only != CASE_ALL || case_same_caches(&again, first);
    for (uint32_t s = 0; s < c->n_sequences; s++)
        if (options->only == CASE_ALL || options->only == s)
            is_same = is_same && case_same_bits(data, s, &again, first);
    if (again.problem[0])
        fail(table, c, what, again.problem);
    else if (!is_same)
        fail(table, c, what, "changes bits");
    case_result_finish(&again);
}

/* A layer that uses what the back end does not compute; n_layers: none. */
static uint32_t layer_not_computed(const struct case_data *data,
                                   const struct attention_backend *backend)
{
    uint32_t layer = 0;
    while (layer < data->test_case->n_layers &&
           (attention_features_used(&data->configs[layer]) & ~backend->features) == 0)
        layer++;
    return layer;
}

/* Another schedule, another back end of the name, kv_update, and a batch of one give the same bits. */
static void check_repeats(struct table *table, const struct case_data *data,
                          const struct case_result *first)
{
    const struct attention_case *c = data->test_case;
    struct case_options options = {.backend = table->backend, .only = CASE_ALL};
    check_repeat(table, data, first, &options, "another schedule");
    options.updates_prompts = true;
    check_repeat(table, data, first, &options, "kv_update of the prompts");
    options.updates_prompts = false;
    options.only = c->number / PARTS % c->n_sequences;
    if (!c->reuses_prefix)
        check_repeat(table, data, first, &options, "a sequence alone");
    options = (struct case_options){.backend = &cuda_attention_reference, .only = CASE_ALL};
    if (table->backend != options.backend &&
        layer_not_computed(data, options.backend) == c->n_layers)
        check_repeat(table, data, first, &options, "the reference kernel");
}

static double over(double error, double bound)
{
    return error == 0 ? 0 : error / bound;
}

static void compare(struct table *table, const struct case_data *data,
                    const struct case_result *got, const struct case_result *expected)
{
    const struct case_error bound = case_bound(data, expected, false);
    const struct case_error error = case_error(data, got, expected);
    double worst = over(error.output, bound.output);
    worst = over(error.rms, bound.rms) > worst ? over(error.rms, bound.rms) : worst;
    worst = over(error.lse, bound.lse) > worst ? over(error.lse, bound.lse) : worst;
    if (worst > table->worst_of_bound) {
        table->worst_of_bound = worst;
        table->worst_case = data->test_case->number;
    }
    char text[160];
    snprintf(text, sizeof text, "output %.2e of %.2e, rms %.2e of %.2e, lse %.2e of %.2e",
             error.output, bound.output, error.rms, bound.rms, error.lse, bound.lse);
    if (!(worst <= 1))
        fail(table, data->test_case, "too far from the reference:", text);
}

static void compute(struct table *table, const struct case_data *data)
{
    const struct attention_case *c = data->test_case;
    const struct case_options oracle = {
        .backend = &reference_attention, .only = CASE_ALL, .is_oracle = true};
    const struct case_options options = {.backend = table->backend, .only = CASE_ALL};
    struct case_result expected, got = run(data, &options, table->schedule);
    case_run(data, &oracle, &expected);
    table->n_computed++;
    if (got.problem[0] || expected.problem[0])
        fail(table, c, "problem:", got.problem[0] ? got.problem : expected.problem);
    else
        compare(table, data, &got, &expected);
    if (!got.problem[0] && is_part(c->number, IS_REPEATED))
        check_repeats(table, data, &got);
    case_result_finish(&got);
    case_result_finish(&expected);
}

static bool is_refused(struct table *table, const struct case_data *data)
{
    const struct attention_case *c = data->test_case;
    const bool is_excluded = case_exclusion(c) != NULL;
    const uint32_t layer = is_excluded ? 0 : layer_not_computed(data, table->backend);
    const enum status expected = is_excluded ? STATUS_INVALID_ARGUMENT : STATUS_UNSUPPORTED;
    struct attention *attention;
    struct error error = {""};
    if (layer == c->n_layers)
        return false;
    struct device *device = open_device(0, c->number);
    device_bind(device);
    enum status status = table->backend->create(&data->configs[layer], NULL, &attention, &error);
    if (status == STATUS_OK)
        table->backend->destroy(attention);
    if (status != expected || error.text[0] == '\0')
        fail(table, c, "is not refused as it should be:", error.text);
    device_bind(NULL);
    device_close(device);
    table->n_refused++;
    return true;
}

/* A guard page, an assertion or the harness ends the process: say where. */
static uint32_t current_case;

static void say_case(int number)
{
    static const char digits[] = "0123456789";
    char text[] = "in KVFERRY_CASE=0000\n";
    for (uint32_t i = 0, n = current_case; i < 4; i++, n /= 10)
        text[sizeof text - 3 - i] = digits[n % 10];
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    signal(number, SIG_DFL);
    raise(number);
}

static void check_case(struct table *table, uint32_t number)
{
    const struct attention_case c = case_make(number);
    struct case_data data;
    struct error error = {""};
    current_case = number;
    if (!case_data_init(&c, &data, &error)) {
        fail(table, &c, "rope:", error.text);
        return;
    }
    if (!is_refused(table, &data))
        compute(table, &data);
    case_data_finish(&data);
}

/* Long rows, wide heads, trees: every fifth of them runs in every schedule. */
static bool is_boundary(uint32_t number)
{
    const struct attention_case c = case_make(number);
    return number % 5 == 0 && (c.is_long || c.head_dim > 128 || c.is_tree);
}

/* KVFERRY_SIMT_SAMPLE=n: every n-th case of a schedule, where every access is looked at and all of them take too long. */
static uint32_t sample_step(void)
{
    const char *text = getenv("KVFERRY_SIMT_SAMPLE");
    const unsigned long n = text ? strtoul(text, NULL, 10) : 1;
    return n > 0 && n <= case_count() ? (uint32_t)n : 1;
}

static void run_table(const char *name, const struct attention_backend *backend, uint32_t schedule)
{
    struct table table = {.name = name, .backend = backend, .schedule = schedule};
    const char *one = getenv("KVFERRY_CASE");
    signal(SIGSEGV, say_case);
    signal(SIGABRT, say_case);
    if (one)
        check_case(&table, (uint32_t)strtoul(one, NULL, 10));
    for (uint32_t number = 0; !one && number < case_count(); number++)
        if (number / SCHEDULES % sample_step() == 0 &&
            (number % SCHEDULES == schedule || is_boundary(number)))
            check_case(&table, number);
    fprintf(stderr,
            "%s, schedule %u: %u cases computed, %u refused, worst %.2f of its bound (case %u)\n",
            name, schedule, table.n_computed, table.n_refused, table.worst_of_bound,
            table.worst_case);
    cr_assert_eq(table.n_failed, 0, "%u cases failed", table.n_failed);
}

Test(simt_cases, reference_kernel_in_order_copies_early)
{
    run_table("cuda_reference", &cuda_attention_reference, 0);
}
Test(simt_cases, reference_kernel_in_order_copies_late)
{
    run_table("cuda_reference", &cuda_attention_reference, 1);
}
Test(simt_cases, reference_kernel_shuffled_copies_early)
{
    run_table("cuda_reference", &cuda_attention_reference, 2);
}
Test(simt_cases, reference_kernel_shuffled_copies_late)
{
    run_table("cuda_reference", &cuda_attention_reference, 3);
}

Test(simt_cases, masked_kernel_in_order_copies_early)
{
    run_table("cuda_masked", &cuda_attention_masked, 0);
}
Test(simt_cases, masked_kernel_in_order_copies_late)
{
    run_table("cuda_masked", &cuda_attention_masked, 1);
}
Test(simt_cases, masked_kernel_shuffled_copies_early)
{
    run_table("cuda_masked", &cuda_attention_masked, 2);
}
Test(simt_cases, masked_kernel_shuffled_copies_late)
{
    run_table("cuda_masked", &cuda_attention_masked, 3);
}
