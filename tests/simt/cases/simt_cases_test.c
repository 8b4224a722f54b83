/* The attention of kernels/cuda, on the harness, gives what the reference gives within the dtype's error: every feature of
 * its column alone, in pairs and in random triples, and refuses the others. KVFERRY_CASE=n runs one case. */
#include "device/device_ops.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/cases/compare.h"
#include "tests/simt/simt_device.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
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
    bool is_half; /* only cases of MATH_BF16 and MATH_FP16 */
    uint32_t n_computed, n_refused, n_failed, n_flash, n_grouped;
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

/* Launches of attention_flash and attention_grouped since a device was opened. */
static uint32_t n_flash, n_grouped;
static enum status (*real_launch)(struct device *, uint32_t, const struct device_shape *,
                                  const void *, size_t);

static enum status counted(struct device *device, uint32_t kernel, const struct device_shape *shape,
                           const void *parameters, size_t bytes)
{
    n_flash += kernel >= CUDA_attention_flash_bf16_64 && kernel <= CUDA_attention_flash_f16_128;
    n_grouped += kernel >= CUDA_attention_grouped_bf16_16_64 &&
                 kernel <= CUDA_attention_grouped_f16_8_128;
    return real_launch(device, kernel, shape, parameters, bytes);
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
    real_launch = device->ops->launch;
    ops.launch = counted;
    n_flash = n_grouped = 0;
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
        strcmp(table->backend->name, options.backend->name) == 0 &&
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
    table->n_flash += n_flash != 0;
    table->n_grouped += n_grouped != 0;
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

/* A case that tensor cores take, as far as its features leave that possible. */
static void fit_flash(struct attention_case *c)
{
    if (c->keys != KEYS_SELF || c->sink_tokens != 0)
        return;
    c->head_dim = c->number / SCHEDULES % 2 ? 128 : 64;
    if (c->rope.theta != 0)
        c->rope.head_dim = c->head_dim;
    if (c->cache != DTYPE_INT8 && c->cache != DTYPE_E4M3)
        c->cache = c->math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    if (c->number / 8 % 2 == 0)
        c->compute = c->math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    c->soft_cap = c->alibi_scale = 0;
    c->has_table = false;
    c->n_buckets = 0;
    c->mask = MASK_CAUSAL;
    c->mask_input = MASK_INPUT_NONE;
    c->has_gaps = c->has_gaps && c->number % 3 == 0;
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

static bool is_of(const struct table *table, uint32_t number)
{
    const enum attention_math math = case_make(number).math;
    if (number / SCHEDULES % sample_step() != 0)
        return false;
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
            "%s, schedule %u: %u cases computed, %u refused, worst %.2f of its bound (case %u)\n",
            table.name, table.schedule, table.n_computed, table.n_refused, table.worst_of_bound,
            table.worst_case);
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
    cr_assert(getenv("KVFERRY_CASE") || sample_step() > 1 || 2 * table.n_flash >= table.n_computed);
}

/* ---- cases that are not of the table ---- */

/* One sequence of so many tokens, the last two of them generated. */
static struct attention_case plain_case(uint32_t len, uint32_t head_dim, uint32_t window)
{
    return (struct attention_case){
        .seed = 5,
        .n_heads = 2,
        .n_kv_heads = 1,
        .head_dim = head_dim,
        .wants_lse = true,
        .n_layers = 1,
        .n_windows = 1,
        .windows = {window},
        .n_beams_max = 1,
        .n_draft_max = 1,
        .block_tokens = 8,
        .n_generated = 2,
        .n_sequences = 1,
        .sequences = {{.id = 1, .prompt_len = len - 2, .len = len, .n_beams = 1}},
    };
}

/* Of a case near the reference; finish it. */
static struct case_result run_plain(const struct attention_case *c, struct case_data *data_out,
                                    const struct attention_backend *backend, uint32_t schedule)
{
    const struct case_options options = {.backend = backend, .only = CASE_ALL};
    const struct case_options oracle = {
        .backend = &reference_attention, .only = CASE_ALL, .is_oracle = true};
    struct table table = {.name = "plain", .schedule = schedule};
    struct error error = {""};
    cr_assert(case_data_init(c, data_out, &error), "%s", error.text);
    struct case_result expected, got = run(data_out, &options, schedule);
    case_run(data_out, &oracle, &expected);
    cr_assert_str_empty(got.problem, "%s", got.problem);
    compare(&table, data_out, &got, &expected);
    cr_assert_eq(table.n_failed, 0);
    case_result_finish(&expected);
    return got;
}

/* What the last run launched is what the case asks for. */
static void assert_launched(const struct attention_case *c)
{
    const bool is_half = c->math != MATH_COMPUTE;
    const bool is_fine = c->compute == DTYPE_F32 ||
                         (c->compute == DTYPE_F16 && c->math == MATH_BF16);
    const bool is_narrow = c->cache == DTYPE_INT8 || c->cache == DTYPE_E4M3;
    const bool is_biased = c->soft_cap != 0 || c->alibi_scale != 0;
    cr_assert_eq(n_grouped != 0, is_half && !is_fine, "%u", n_grouped);
    cr_assert_eq(n_flash != 0, is_half && !is_narrow && !is_biased, "%u", n_flash);
}

static void assert_same(const struct attention_case *a, const struct attention_case *b,
                        const struct attention_backend *backend, const char *what)
{
    struct case_data data_a, data_b;
    struct case_result got_a = run_plain(a, &data_a, backend, 0);
    assert_launched(a);
    struct case_result got_b = run_plain(b, &data_b, backend, 3);
    cr_assert(case_same_bits(&data_a, 0, &got_a, &got_b), "%s, window %u, heads of %u", what,
              a->windows[0], a->head_dim);
    assert_launched(b);
    case_result_finish(&got_a);
    case_result_finish(&got_b);
    case_data_finish(&data_a);
    case_data_finish(&data_b);
}

/* The same tokens in other blocks, chunks and batches. */
static void check_flash(const struct attention_case *whole)
{
    struct attention_case other = *whole;
    other.block_tokens = 64;
    assert_same(whole, &other, &cuda_attention, "blocks of 64");
    other = *whole;
    other.chunk_blocks = 3;
    assert_same(whole, &other, &cuda_attention, "chunks of 24");
    other = *whole;
    other.is_contiguous = true;
    assert_same(whole, &other, &cuda_attention, "a contiguous cache");
    other = *whole;
    other.n_sequences = 2;
    other.sequences[1] = (struct case_sequence){
        .id = 2, .start = 0, .prompt_len = 39, .len = 40, .n_beams = 1};
    struct case_data data;
    struct case_result all = run_plain(&other, &data, &cuda_attention, 0);
    const struct case_options alone = {.backend = &cuda_attention, .only = 0};
    struct case_result one = run(&data, &alone, 1);
    cr_assert(case_same_bits(&data, 0, &all, &one));
    case_result_finish(&all);
    case_result_finish(&one);
    case_data_finish(&data);
}

Test(simt_cases, bits_of_the_flash_kernel_depend_on_the_keys_alone)
{
    static const uint32_t windows[] = {0, 70};
    for (uint32_t i = 0; i < 4; i++) {
        struct attention_case c = plain_case(152, i % 2 ? 128 : 64, windows[i / 2]);
        c.math = i == 0 || i == 3 ? MATH_BF16 : MATH_FP16;
        c.compute = c.cache = c.math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
        c.has_sinks = i == 1;
        check_flash(&c);
    }
}

Test(simt_cases, a_forced_kernel_leaves_flash_alone)
{
    struct attention_case c = plain_case(40, 64, 0);
    struct case_data data;
    c.math = MATH_BF16;
    c.compute = c.cache = DTYPE_BF16;
    struct case_result got = run_plain(&c, &data, &cuda_attention_masked, 0);
    cr_assert_eq(n_flash + n_grouped, 0);
    case_result_finish(&got);
    case_data_finish(&data);
}

/* Ranges without a key in sight are empty: lse tells where a ratio of sums would not. Ranges are the same in all kernels. */
Test(simt_cases, bits_of_a_window_do_not_depend_on_the_split_of_its_keys)
{
    static const uint32_t windows[] = {60, 300};
    for (uint32_t i = 0; i < 2; i++) {
        struct attention_case split = plain_case(602, 16, windows[i]), whole = split;
        split.multi_block = CHOICE_ON;
        whole.multi_block = CHOICE_OFF;
        assert_same(&split, &whole, &cuda_attention, "split");
        struct case_data data;
        whole.multi_block = CHOICE_AUTO;
        struct case_result got = run_plain(&whole, &data, &cuda_attention_masked, 0);
        const struct case_options options = {.backend = &cuda_attention_reference,
                                             .only = CASE_ALL};
        struct case_result reference = run(&data, &options, 0);
        cr_assert_str_empty(reference.problem, "%s", reference.problem);
        cr_assert(case_same_bits(&data, 0, &got, &reference), "window %u", windows[i]);
        case_result_finish(&got);
        case_result_finish(&reference);
        case_data_finish(&data);
    }
}

/* Generation over several ranges of keys: ranges by CTAs of their own or not, other blocks, another sequence beside it. */
static void check_grouped(const struct attention_case *c)
{
    struct attention_case split = *c, whole = *c;
    split.multi_block = CHOICE_ON;
    whole.multi_block = CHOICE_OFF;
    whole.block_tokens = 32;
    assert_same(&split, &whole, &cuda_attention, "generation");
    split.n_sequences = 2;
    split.sequences[1] = (struct case_sequence){
        .id = 2, .prompt_len = 39, .len = 39 + c->n_generated, .n_beams = 1};
    struct case_data data;
    struct case_result all = run_plain(&split, &data, &cuda_attention, 1);
    const struct case_options alone = {.backend = &cuda_attention, .only = 0};
    struct case_result one = run(&data, &alone, 2);
    cr_assert(case_same_bits(&data, 0, &all, &one));
    case_result_finish(&all);
    case_result_finish(&one);
    case_data_finish(&data);
}

Test(simt_cases, bits_of_the_grouped_kernel_depend_on_the_keys_alone)
{
    static const struct grouped_case {
        enum attention_math math;
        enum dtype cache;
        uint32_t n_heads, n_kv_heads, head_dim, window, n_draft_max, n_beams;
        float soft_cap, alibi_scale;
        bool has_sinks;
        enum dtype compute; /* F32: that of the math */
    } cases[] = {
        {MATH_BF16, DTYPE_BF16, 4, 1, 64, 0, 1, 1, 0, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_F16, 2, 2, 128, 250, 1, 1, 0, 0, true, DTYPE_F32},
        {MATH_BF16, DTYPE_INT8, 8, 1, 64, 0, 5, 1, 0, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_E4M3, 16, 1, 64, 20, 1, 1, 0, 0, true, DTYPE_F32},
        {MATH_BF16, DTYPE_E4M3, 2, 1, 128, 0, 1, 3, 5, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_INT8, 2, 1, 128, 0, 1, 1, 0, 1, false, DTYPE_F32},
        {MATH_FP16, DTYPE_F16, 20, 1, 64, 0, 3, 1, 0, 0, false, DTYPE_F32},
        {MATH_BF16, DTYPE_BF16, 4, 2, 128, 40, 4, 1, 0, 0, false, DTYPE_F32},
        {MATH_FP16, DTYPE_INT8, 2, 1, 64, 0, 1, 1, 0, 0, false, DTYPE_BF16},
        {MATH_BF16, DTYPE_INT8, 2, 1, 64, 0, 1, 1, 0, 0, false, DTYPE_F16},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct grouped_case *from = &cases[i];
        struct attention_case c = plain_case(i < 2 ? 520 : 290, from->head_dim, from->window);
        c.math = from->math;
        c.compute = c.math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
        if (from->compute != DTYPE_F32)
            c.compute = from->compute;
        c.cache = from->cache;
        c.n_heads = from->n_heads;
        c.n_kv_heads = from->n_kv_heads;
        c.n_draft_max = from->n_draft_max;
        c.is_tree = c.n_draft_max > 3;
        c.n_beams_max = c.sequences[0].n_beams = from->n_beams;
        c.soft_cap = from->soft_cap;
        c.alibi_scale = from->alibi_scale;
        c.has_sinks = from->has_sinks;
        c.n_generated = 6;
        c.sequences[0].prompt_len = c.sequences[0].len - 6;
        check_grouped(&c);
    }
}
