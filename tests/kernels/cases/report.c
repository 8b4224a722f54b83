#include "tests/kernels/cases/report.h"

#include "tests/kernels/support/plain_backend.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURES_SHOWN = 20 };

static enum status find_attention(const char *name, const struct attention_backend **attention_out)
{
    const struct kernels *kernels;
    enum status status = kernels_select(name, &kernels, NULL);
    if (status == STATUS_OK)
        *attention_out = kernels->attention;
    else if (status == STATUS_INVALID_ARGUMENT) /* a back end without kernels of its own */
        status = attention_backend_select(name, NULL, attention_out, NULL);
    if (status != STATUS_INVALID_ARGUMENT || strcmp(name, plain_attention.name) != 0)
        return status;
    *attention_out = &plain_attention; /* the example of docs/new-backend.md: no build lists it */
    return STATUS_OK;
}

static void add_path(struct case_report *report, const char *name)
{
    const char *forced = getenv("KVFERRY_CPU");
    struct case_path *path = &report->paths[report->n_paths];
    *path = (struct case_path){.name = name, .same_as = report->n_paths++};
    enum status status = find_attention(name, &path->attention);
    if (status != STATUS_OK)
        path->why_not = status == STATUS_UNSUPPORTED ? "this machine lacks its instructions"
                                                     : "this build does not have it";
    else if (forced && forced[0] && strcmp(forced, name) != 0)
        path->why_not = "KVFERRY_CPU asks for another";
    if (path->why_not)
        path->attention = NULL;
    for (uint32_t i = 0; path->attention && i < path->same_as; i++)
        if (report->paths[i].attention == path->attention)
            path->same_as = i;
}

static bool has_path(const struct case_report *report, const char *name)
{
    for (uint32_t p = 0; p < report->n_paths; p++)
        if (strcmp(report->paths[p].name, name) == 0)
            return true;
    return false;
}

void case_report_init(struct case_report *report_out)
{
    static const char *const names[] = {
        "reference",   "scalar",      "sse2",     "avx2", "avx2_vnni", "avx512",  "avx512_vnni",
        "avx512_bf16", "avx512_fp16", "amx_bf16", "amx",  "neon",      "neon_dot"};
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    *report_out = (struct case_report){.mutex = PTHREAD_MUTEX_INITIALIZER};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_path(report_out, names[i]);
    for (uint32_t i = 0; i < n; i++)
        cr_assert(has_path(report_out, list[i]->name), "%s is no path that report.c knows",
                  list[i]->name);
    for (uint32_t i = 0; attention_backend_name(i); i++)
        if (!has_path(report_out, attention_backend_name(i)))
            add_path(report_out, attention_backend_name(i));
    if (!has_path(report_out, plain_attention.name))
        add_path(report_out, plain_attention.name);
}

static double over(double error, double bound)
{
    return error == 0 ? 0 : error / bound;
}

void case_report_add(struct case_report *report, uint32_t path, const struct attention_case *c,
                     const struct case_error *error, const struct case_error *bound)
{
    struct case_totals *totals = &report->paths[path].totals[case_class_of(c)];
    double of_bound = fmax(over(error->output, bound->output),
                           fmax(over(error->rms, bound->rms), over(error->lse, bound->lse)));
    pthread_mutex_lock(&report->mutex);
    totals->n_cases++;
    totals->worst.output = fmax(totals->worst.output, error->output);
    totals->worst.rms = fmax(totals->worst.rms, error->rms);
    totals->worst.lse = fmax(totals->worst.lse, error->lse);
    if (of_bound > totals->worst_of_bound) {
        totals->worst_of_bound = of_bound;
        totals->worst_case = c->number;
    }
    pthread_mutex_unlock(&report->mutex);
    if (!(of_bound <= 1))
        case_report_failure(report, c,
                            "%s: output %g (bound %g), root mean square %g (%g), lse %g (%g)",
                            report->paths[path].name, error->output, bound->output, error->rms,
                            bound->rms, error->lse, bound->lse);
}

void case_report_cost(struct case_report *report, uint32_t path, const struct attention_case *c,
                      const struct case_cost *cost)
{
    struct case_costs *costs = &report->paths[path].costs[c->math][c->compute];
    pthread_mutex_lock(&report->mutex);
    costs->n_cases++;
    costs->sum_of_means += cost->mean;
    if (cost->largest > costs->largest) {
        costs->largest = cost->largest;
        costs->worst_case = c->number;
    }
    pthread_mutex_unlock(&report->mutex);
}

void case_report_refused(struct case_report *report, uint32_t path)
{
    pthread_mutex_lock(&report->mutex);
    report->paths[path].n_refused++;
    pthread_mutex_unlock(&report->mutex);
}

void case_report_failure(struct case_report *report, const struct attention_case *c,
                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&report->mutex);
    if (report->n_failed++ < FAILURES_SHOWN) {
        fputs("FAILED: ", stderr);
        vfprintf(stderr, format, arguments);
        fputs("\n  ", stderr);
        case_print(c);
    }
    pthread_mutex_unlock(&report->mutex);
    va_end(arguments);
}

static void print_path(const struct case_path *path)
{
    for (uint32_t class = 0; class < N_CLASSES; class ++) {
        const struct case_totals *totals = &path->totals[class];
        if (totals->n_cases > 0)
            printf("%-11s %-11s %6u   %9.2e %9.2e %9.2e   %9.2f   %6u\n", path->name,
                   case_class_name(class), totals->n_cases, totals->worst.output, totals->worst.rms,
                   totals->worst.lse, totals->worst_of_bound, totals->worst_case);
    }
    printf("%-11s refused as it must be: %u\n", path->name, path->n_refused);
}

static void print_costs(const struct case_path *path)
{
    static const char *const maths[CASE_MATHS] = {[MATH_FP8] = "FP8",
                                                  [MATH_INT8] = "INT8",
                                                  [MATH_INT8_PV_FP8] = "INT8, P V FP8",
                                                  [MATH_BF16] = "BF16",
                                                  [MATH_FP16] = "FP16"};
    for (uint32_t math = MATH_FP8; math < CASE_MATHS; math++)
        for (enum dtype compute = DTYPE_F32; compute <= DTYPE_F16; compute++) {
            const struct case_costs *costs = &path->costs[math][compute];
            if (costs->n_cases > 0)
                printf("%-11s %-13s %-4s %6u   %9.2e %9.2e   %6u\n", path->name, maths[math],
                       dtype_name(compute), costs->n_cases, costs->largest,
                       costs->sum_of_means / costs->n_cases, costs->worst_case);
        }
}

static void print_all_costs(const struct case_report *report)
{
    printf("\nquantised context attention against the same without quantising, in float64: the "
           "largest error, relative to the largest output, and the mean, to the mean output\n"
           "%-11s %-13s %-4s %6s   %9s %9s   %6s\n",
           "path", "math", "type", "cases", "largest", "mean", "in case");
    for (uint32_t i = 0; i < report->n_paths; i++)
        if (report->paths[i].attention && report->paths[i].same_as == i)
            print_costs(&report->paths[i]);
}

void case_report_print(const struct case_report *report)
{
    printf("\nattention cases against float64: the worst of each path and type\n"
           "%-11s %-11s %6s   %9s %9s %9s   %9s   %6s\n",
           "path", "type", "cases", "output", "rms", "lse", "of bound", "in case");
    for (uint32_t i = 0; i < report->n_paths; i++) {
        const struct case_path *path = &report->paths[i];
        if (!path->attention)
            printf("%-11s did not run: %s\n", path->name, path->why_not);
        else if (path->same_as != i)
            printf("%-11s has the attention of %s\n", path->name,
                   report->paths[path->same_as].name);
        else
            print_path(path);
    }
    print_all_costs(report);
    fflush(stdout);
}
