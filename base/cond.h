/*
 * cond - condition variables that wait until a time of clock_now_ns.
 *
 * Thread: any.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void cond_init(pthread_cond_t *cond);

/* DEADLINE_NONE: no limit. False: the time has passed. True: signalled, or a spurious wake-up, which POSIX
 * permits. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);
