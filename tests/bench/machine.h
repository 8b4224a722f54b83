/*
 * machine - what a benchmark of kernels shares: the peaks of this machine measured in the same run,
 * memory, random numbers, the best of several runs, and how a figure is printed.
 */
#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"

#define STREAM_BYTES                                                                               \
    ((size_t)256 << 20) /* a bandwidth run's buffer, and weights a GEMV walks through */

/* Of the command line: [N_THREADS] [--quick] [--json] [name ...] */
struct bench_arguments {
    uint32_t n_threads; /* 0: one a CPU */
    bool is_quick;      /* only the cells that goals are stated for */
    bool is_json;       /* an object a line in place of a row */
    char **names;
    int n_names;
};

struct bench_arguments bench_arguments_parse(int argc, char **argv);
bool bench_arguments_want(const struct bench_arguments *arguments,
                          const char *name); /* no names: all */

struct bench {
    bool is_json;
    const struct kernels *kernels;
    struct thread_pool *pool;
    uint32_t n_threads;
    double fma_peak;             /* GFLOP/s */
    double read_peak, copy_peak; /* GB/s; a copy counts bytes read and written */
    char *stream[2];
    size_t stream_at; /* walks on with each run, so that no cache holds what comes next */
};

typedef void (*bench_body)(void *arg);

/* The kernels that KVFERRY_CPU names, threads and peaks. */
void bench_open(uint32_t n_threads, bool is_json, struct bench *bench_out);
void bench_print_machine(const struct bench *bench);
void bench_close(struct bench *bench);

void must(enum status status); /* or the program ends */

void *allocate(size_t bytes); /* zeros, in large pages where there are; munmap */
void *filled(enum dtype dtype, size_t n, float scale);
uint32_t random_next(void);

/* Seconds of one call: the best of many, since others use this machine too. */
double best_seconds(bench_body body, void *arg);

struct figure {
    const char *section, *what;
    double seconds;
    double value; /* in unit */
    const char *unit;
    double of_peak;
    double peer_seconds; /* 0: no peer */
    double ratio, goal;  /* goal 0: none */
};

void print_figure(const struct bench *bench, const struct figure *figure);
