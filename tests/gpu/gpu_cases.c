/*
 * gpu_cases - the attention case table of tests/kernels, computed on a device and compared with the reference.
 *
 *     gpu_cases DEVICE [--toy] [SECONDS]     --toy: ten small cases, for compute-sanitizer; SECONDS: in all
 *
 * Tensors and caches are the host's memory with its guard pages and poison, which the driver is told to let the device
 * read and write: the same addresses on both sides, and a bus between them, so that cases take milliseconds. Where the
 * time runs out, what was computed is a sample of the whole table. A line of JSON for each back end; each failure on standard error.
 */
#include "base/clock.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference/attention.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/host_memory.h"
#include "tests/kernels/cases/compare.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOY_CASES = 10, FAILURES_SHOWN = 10 };
#define STRIDE 1009u /* a prime that does not divide the number of cases: neighbours are alike */

struct table {
    struct gpu *gpu;
    const struct attention_backend *backend;
    const char *name;
    uint32_t n_computed, n_refused, n_failed, n_left, worst_case;
    double worst_of_bound;
};

static void fail(struct table *table, uint32_t number, const char *why)
{
    if (table->n_failed++ < FAILURES_SHOWN)
        fprintf(stderr, "%s, case %u: %s\n", table->name, number, why);
}

/* A layer asks for what the back end refuses, or two features exclude each other. */
static bool is_refused(const struct table *table, const struct case_data *data)
{
    bool is_refused = case_exclusion(data->test_case) != NULL;
    for (uint32_t layer = 0; layer < data->test_case->n_layers; layer++)
        is_refused |= (attention_features_used(&data->configs[layer]) &
                       ~table->backend->features) != 0;
    return is_refused;
}

static double of_bound(double error, double bound)
{
    return error == 0 ? 0 : error / bound;
}

static void compare(struct table *table, const struct case_data *data,
                    const struct case_result *got, const struct case_result *expected)
{
    const struct case_error bound = case_bound(data, expected, false);
    const struct case_error error = case_error(data, got, expected);
    double worst = fmax(fmax(of_bound(error.output, bound.output), of_bound(error.rms, bound.rms)),
                        of_bound(error.lse, bound.lse));
    char why[160];
    snprintf(why, sizeof why, "%.3g of the bound: output %.2e, rms %.2e, lse %.2e", worst,
             error.output, error.rms, error.lse);
    if (!(worst <= 1))
        fail(table, data->test_case->number, why);
    if (worst > table->worst_of_bound) {
        table->worst_of_bound = worst;
        table->worst_case = data->test_case->number;
    }
}

static void compute(struct table *table, const struct case_data *data)
{
    const struct case_options oracle = {
        .backend = &reference_attention, .only = CASE_ALL, .is_oracle = true};
    const struct case_options options = {.backend = table->backend,
                                         .only = CASE_ALL,
                                         .device = table->gpu->device,
                                         .adopt = host_memory_adopt,
                                         .disown = host_memory_disown};
    struct case_result got, expected;
    case_run(data, &options, &got);
    case_run(data, &oracle, &expected);
    table->n_computed++;
    if (got.problem[0] || expected.problem[0])
        fail(table, data->test_case->number, got.problem[0] ? got.problem : expected.problem);
    else
        compare(table, data, &got, &expected);
    case_result_finish(&got);
    case_result_finish(&expected);
}

static void run_case(struct table *table, uint32_t number)
{
    const struct attention_case c = case_make(number);
    struct case_data data;
    struct error error = {""};
    if (!case_data_init(&c, &data, &error)) {
        fail(table, number, error.text);
        return;
    }
    if (is_refused(table, &data))
        table->n_refused++;
    else
        compute(table, &data);
    case_data_finish(&data);
}

static bool run_table(struct gpu *gpu, const char *name, const struct attention_backend *backend,
                      uint64_t ends_ns)
{
    struct table table = {.gpu = gpu, .backend = backend, .name = name};
    const uint32_t n = case_count();
    assert(n % STRIDE != 0);
    for (uint32_t i = 0; i < n; i++) {
        if (gpu->is_toy ? table.n_computed == TOY_CASES : clock_now_ns() > ends_ns)
            table.n_left++;
        else
            run_case(&table, (uint32_t)((uint64_t)i * STRIDE % n));
    }
    printf("{\"section\": \"cases\", \"name\": \"%s\", \"computed\": %u, \"refused\": %u, "
           "\"left\": %u, \"failed\": %u, \"worst_of_bound\": %.3f, \"worst_case\": %u}\n",
           name, table.n_computed, table.n_refused, table.n_left, table.n_failed,
           table.worst_of_bound, table.worst_case);
    fflush(stdout);
    return table.n_failed == 0 && table.n_computed > 0;
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    if (argc < 2) {
        fprintf(stderr, "usage: gpu_cases DEVICE [--toy] [SECONDS]\n");
        return 2;
    }
    bool is_toy = argc > 2 && strcmp(argv[2], "--toy") == 0;
    const char *text = argc > (is_toy ? 3 : 2) ? argv[is_toy ? 3 : 2] : "3600";
    const uint64_t third_ns = strtoul(text, NULL, 10) * NS_PER_S / 3, start_ns = clock_now_ns();
    gpu_open(argv[1], is_toy, &gpu);
    gpu_load(&gpu, &cuda_image);
    /* What one does not take is the next one's. */
    bool is_right = run_table(&gpu, "auto", &cuda_attention, start_ns + third_ns);
    is_right &= run_table(&gpu, "masked", &cuda_attention_masked, start_ns + 2 * third_ns);
    is_right &= run_table(&gpu, "reference", &cuda_attention_reference, start_ns + 3 * third_ns);
    gpu_close(&gpu);
    return is_right ? 0 : 1;
}
