#include "discovery/k8s/fd_wait.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

/* Rounded up, so that nobody wakes before the time. */
static int milliseconds_until(uint64_t until_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (until_ns <= now_ns)
        return 0;
    if (until_ns - now_ns > INT_MAX * NS_PER_MS)
        return INT_MAX;
    return (int)((until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

enum status fd_wait(int fd, short events, int stop_fd, uint64_t until_ns)
{
    struct pollfd looks[] = {{.fd = stop_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    for (;;) {
        int limit_ms = milliseconds_until(until_ns);
        int n = poll(looks, 2, limit_ms);
        if (n < 0 && errno != EINTR)
            return errno_status(errno);
        if (n > 0 && looks[0].revents)
            return STATUS_CANCELLED;
        if (n > 0)
            return STATUS_OK;
        if (n == 0 && limit_ms == 0)
            return STATUS_TIMED_OUT;
    }
}
