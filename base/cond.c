#include "base/cond.h"

#include "base/clock.h"

#include <errno.h>
#include <time.h>

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    if (until_ns == DEADLINE_NONE)
        return pthread_cond_wait(cond, lock) == 0;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                   .tv_nsec = (long)(until_ns % NS_PER_S)};
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
