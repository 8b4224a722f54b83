/*
 * machine - what a benchmark of kernels shares: the peaks of this machine measured in the same run,
 * memory, random numbers, and the best of several runs.
 */
#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"

#define STREAM_BYTES                                                                               \
    ((size_t)256 << 20) /* a bandwidth run's buffer, and weights a GEMV walks through */

struct bench {
    const struct kernels *kernels;
    struct thread_pool *pool;
    uint32_t n_threads;
    double fma_peak;             /* GFLOP/s */
    double read_peak, copy_peak; /* GB/s; a copy counts bytes read and written */
    char *stream[2];
    size_t stream_at; /* walks on with each run, so that no cache holds what comes next */
};

typedef void (*bench_body)(void *arg);

/* The kernels that KVFERRY_CPU names, threads and peaks; prints them. n_threads 0: one a CPU. */
void bench_open(uint32_t n_threads, struct bench *bench_out);
void bench_close(struct bench *bench);

void must(enum status status); /* or the program ends */

void *allocate(size_t bytes); /* zeros, in large pages where there are; munmap */
void *filled(enum dtype dtype, size_t n, float scale);
uint32_t random_next(void);

/* Seconds of one call: the best of many, since others use this machine too. */
double best_seconds(bench_body body, void *arg);
void print_row(const char *what, double seconds, double figure, const char *unit, double peak);
