/*
 * read_speed - how many bytes a second this machine's threads read from memory together: what bounds the decoding of one sequence.
 *
 * Thread: main, with the thread pool under it.
 */
#pragma once

struct thread_pool;

/* The best of some passes over memory that no cache holds, in bytes a second; 0: there is no memory to measure with. */
double read_speed_measure(struct thread_pool *threads);
