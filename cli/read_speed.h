/*
 * read_speed - how many bytes a second this machine's threads read from memory together: what bounds the decoding of one sequence.
 *
 * Thread: main, with the thread pool under it.
 */
#pragma once

#include <stdint.h>

struct thread_pool;

/* The best of some passes over memory, in bytes a second; at most bytes_max are taken for it. 0: that is too little, for caches would
 * answer, or there is no memory. */
double read_speed_measure(struct thread_pool *threads, uint64_t bytes_max);
