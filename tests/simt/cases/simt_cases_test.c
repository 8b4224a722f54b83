/* The attention of kernels/cuda, on the harness, gives what the reference gives within the dtype's error: every feature of
 * its column alone, in pairs and in random triples, and refuses the others. KVFERRY_CASE=n runs one case. */
#include "kernels/cuda/attention.h"
#include "kernels/reference/attention.h"
#include "tests/simt/cases/table.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_repeat(struct table *table, const struct case_data *data,
                         const struct case_result *first, const struct case_options *options,
                         const char *what)
{
    const struct attention_case *c = data->test_case;
    struct case_result again = table_run(data, options, (table->schedule + 1) % SCHEDULES);
    bool is_same = options->only != CASE_ALL || case_same_caches(&again, first);
    for (uint32_t s = 0; s < c->n_sequences; s++)
        if (options->only == CASE_ALL || options->only == s)
            is_same = is_same && case_same_bits(data, s, &again, first);
    if (again.problem[0])
        table_fail(table, c, what, again.problem);
    else if (!is_same)
        table_fail(table, c, what, "changes bits");
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
        strcmp(table->backend->name, options.backend->name) == 0 &&
        layer_not_computed(data, options.backend) == c->n_layers)
        check_repeat(table, data, first, &options, "the reference kernel");
}

/* Whether tensor cores take a case, once it is fitted. */
static bool can_be_fitted(const struct attention_case *c)
{
    return c->keys == KEYS_SELF && c->sink_tokens == 0;
}

/* One fitted case in four keeps what is added to its scores: attention_grouped takes it, attention_flash need not. */
static bool keeps_biases(const struct attention_case *c)
{
    return can_be_fitted(c) && c->number / SCHEDULES % 4 == 3;
}

static void compute(struct table *table, const struct case_data *data)
{
    const struct attention_case *c = data->test_case;
    const struct case_options oracle = {
        .backend = &reference_attention, .only = CASE_ALL, .is_oracle = true};
    const struct case_options options = {.backend = table->backend, .only = CASE_ALL};
    struct case_result expected, got = table_run(data, &options, table->schedule);
    table->n_flash += launched.n_flash != 0;
    table->n_grouped += launched.n_grouped != 0;
    table->n_biased += table->is_half && keeps_biases(c);
    table->n_whole += launched.n_short + launched.n_unfused != 0;
    if (!table_launched_as_named(c) && !got.problem[0])
        table_fail(table, c, "launched", "what its path does not name");
    case_run(data, &oracle, &expected);
    table->n_computed++;
    if (got.problem[0] || expected.problem[0])
        table_fail(table, c, "problem:", got.problem[0] ? got.problem : expected.problem);
    else
        table_compare(table, data, &got, &expected);
    if (!got.problem[0] && table_is_part(c->number, IS_REPEATED))
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
    struct device *device = table_device(0, c->number);
    device_bind(device);
    enum status status = table->backend->create(&data->configs[layer], NULL, &attention, &error);
    if (status == STATUS_OK)
        table->backend->destroy(attention);
    if (status != expected || error.text[0] == '\0')
        table_fail(table, c, "is not refused as it should be:", error.text);
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

/* Changes a case into one that tensor cores take, if it can be. */
static void fit_flash(struct attention_case *c)
{
    if (!can_be_fitted(c))
        return;
    c->head_dim = c->number / SCHEDULES % 2 ? 128 : 64;
    if (c->rope.theta != 0)
        c->rope.head_dim = c->head_dim;
    if (c->number / SCHEDULES % 8 == 5) /* few of the table's have so narrow a cache */
        c->cache = c->number / SCHEDULES % 16 == 5 ? DTYPE_INT8 : DTYPE_E4M3;
    else if (c->cache != DTYPE_INT8 && c->cache != DTYPE_E4M3)
        c->cache = c->math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    if (c->number / 8 % 2 == 0 || keeps_biases(c))
        c->compute = c->math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    c->has_gaps = c->has_gaps && c->number % 3 == 0;
    if (keeps_biases(c))
        return;
    c->soft_cap = c->alibi_scale = 0;
    c->has_table = false;
    c->n_buckets = 0;
    c->mask = MASK_CAUSAL;
    c->mask_input = MASK_INPUT_NONE;
}

static void check_case(struct table *table, uint32_t number)
{
    struct attention_case c = case_make(number);
    if (table->is_half)
        fit_flash(&c);
    struct case_data data;
    struct error error = {""};
    current_case = number;
    if (!case_data_init(&c, &data, &error)) {
        table_fail(table, &c, "rope:", error.text);
        return;
    }
    if (!is_refused(table, &data))
        compute(table, &data);
    case_data_finish(&data);
}

/* KVFERRY_SIMT_SAMPLE=n: every n-th case of a schedule, where every access is looked at and all of them take too long. Not set: the
 * short table; KVFERRY_SIMT_ALL: 1. */
static uint32_t sample_step(void)
{
    const char *text = getenv("KVFERRY_SIMT_SAMPLE");
    const unsigned long n = text ? strtoul(text, NULL, 10) : table_has_all();
    return n <= case_count() ? (uint32_t)n : 0;
}

/* Long rows, wide heads, trees: every fifth of them runs in every schedule, of the whole table. */
static bool is_boundary(uint32_t number)
{
    if (sample_step() == 0)
        return false;
    const struct attention_case c = case_make(number);
    return number % 5 == 0 && (c.is_long || c.head_dim > 128 || c.is_tree);
}

static bool is_in_sample(uint32_t number)
{
    const uint32_t step = sample_step();
    return step == 0 ? case_is_in_short_table(number) : number / SCHEDULES % step == 0;
}

static bool is_of(const struct table *table, uint32_t number)
{
    const enum attention_math math = case_make(number).math;
    if (!is_in_sample(number))
        return false;
    if (table->backend == &cuda_attention_reference && sample_step() == 0 && number / SCHEDULES % 2)
        return false; /* it is also what repeated cases of the other are held against */
    if (table->is_half && math != MATH_BF16 && math != MATH_FP16)
        return false;
    return number % SCHEDULES == table->schedule || is_boundary(number);
}

static struct table run_cases(struct table table)
{
    const char *one = getenv("KVFERRY_CASE");
    signal(SIGSEGV, say_case);
    signal(SIGABRT, say_case);
    if (one)
        check_case(&table, (uint32_t)strtoul(one, NULL, 10));
    for (uint32_t number = 0; !one && number < case_count(); number++)
        if (is_of(&table, number))
            check_case(&table, number);
    fprintf(stderr,
            "%s, schedule %u: %u cases computed (%u with stored scores), %u refused, worst %.2f of "
            "its bound (case %u)\n",
            table.name, table.schedule, table.n_computed, table.n_whole, table.n_refused,
            table.worst_of_bound, table.worst_case);
    cr_assert_eq(table.n_failed, 0, "%u cases failed", table.n_failed);
    return table;
}

/* KVFERRY_SIMT_SCHEDULE=n: that one alone. */
static bool is_left_out(uint32_t schedule)
{
    const char *text = getenv("KVFERRY_SIMT_SCHEDULE");
    return text && strtoul(text, NULL, 10) != schedule;
}

static struct criterion_test_params every_schedule(void)
{
    static uint32_t schedules[SCHEDULES] = {0, 1, 2, 3};
    return cr_make_param_array(uint32_t, schedules, SCHEDULES);
}

ParameterizedTestParameters(simt_cases, reference_kernel)
{
    return every_schedule();
}
ParameterizedTest(uint32_t *schedule, simt_cases, reference_kernel)
{
    if (!is_left_out(*schedule))
        (void)run_cases((struct table){
            .name = "cuda_reference", .backend = &cuda_attention_reference, .schedule = *schedule});
}

ParameterizedTestParameters(simt_cases, masked_kernel)
{
    return every_schedule();
}
ParameterizedTest(uint32_t *schedule, simt_cases, masked_kernel)
{
    if (!is_left_out(*schedule))
        (void)run_cases((struct table){
            .name = "cuda_masked", .backend = &cuda_attention_masked, .schedule = *schedule});
}

/* The choice of kernels differs from cuda_masked where p is rounded to 16 bits. */
ParameterizedTestParameters(simt_cases, flash_kernel)
{
    return every_schedule();
}
ParameterizedTest(uint32_t *schedule, simt_cases, flash_kernel)
{
    if (is_left_out(*schedule))
        return;
    const struct table table = run_cases((struct table){
        .name = "cuda", .backend = &cuda_attention, .schedule = *schedule, .is_half = true});
    fprintf(stderr, "cuda, schedule %u: %u cases took attention_flash, %u attention_grouped\n",
            *schedule, table.n_flash, table.n_grouped);
    cr_assert(getenv("KVFERRY_CASE") || sample_step() > 1 ||
              (2 * table.n_flash >= table.n_computed - table.n_biased &&
               3 * table.n_grouped >= table.n_computed));
}
