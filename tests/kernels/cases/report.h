/*
 * report - what the case table found, counted for each path and type.
 *
 * Thread: any; it locks.
 */
#pragma once

#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "tests/kernels/cases/compare.h"

#include <pthread.h>

enum { CASE_PATHS_MAX = 2 * KERNELS_MAX + 1 };

struct case_totals {
    uint32_t n_cases;
    struct case_error worst; /* as it is */
    double worst_of_bound;   /* largest error over its bound */
    uint32_t worst_case;
};

enum { CASE_MATHS = MATH_FP16 + 1, CASE_COMPUTES = DTYPE_F16 + 1 };

/* Of a math and a compute dtype. */
struct case_costs {
    uint32_t n_cases;
    double largest, sum_of_means;
    uint32_t worst_case;
};

struct case_path {
    const char *name;
    const struct attention_backend *attention; /* NULL: does not run here */
    const char *why_not;
    uint32_t same_as; /* an earlier path with the same attention; its own index: none */
    uint32_t n_refused;
    struct case_totals totals[N_CLASSES];
    struct case_costs costs[CASE_MATHS][CASE_COMPUTES]; /* of MATH_COMPUTE: none */
};

struct case_report {
    struct case_path paths[CASE_PATHS_MAX];
    uint32_t n_paths;
    uint32_t n_failed;
    pthread_mutex_t mutex;
};

/* Every path there is, and the example of docs/new-backend.md; KVFERRY_CPU leaves one of them. */
void case_report_init(struct case_report *report_out);
void case_report_add(struct case_report *report, uint32_t path, const struct attention_case *c,
                     const struct case_error *error, const struct case_error *bound);
void case_report_cost(struct case_report *report, uint32_t path, const struct attention_case *c,
                      const struct case_cost *cost);
void case_report_refused(struct case_report *report, uint32_t path);
/* Prints the case and the sentence. */
void case_report_failure(struct case_report *report, const struct attention_case *c,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));
void case_report_print(const struct case_report *report);
