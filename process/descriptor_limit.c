#include "process/descriptor_limit.h"

#include "base/log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

uint64_t descriptor_needs_sum(const struct descriptor_needs *needs)
{
    return DESCRIPTORS_OWN +
           (uint64_t)needs->n_ports * needs->connections_max * DESCRIPTORS_PER_CONNECTION +
           (uint64_t)needs->peers_max * DESCRIPTORS_PER_PEER + needs->data_connections_max +
           needs->feed_readers_max;
}

enum status descriptor_limit_raise(const struct descriptor_needs *needs, struct error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set(error, STATUS_IO_FAILED, "limit of open descriptors: %s", strerror(errno));
    uint64_t hard = limit.rlim_max;
    uint64_t needed = descriptor_needs_sum(needs);
    if (hard < DESCRIPTORS_OWN)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the limit of open descriptors is %" PRIu64
                         "; at least %d are needed, %" PRIu64
                         " for all that the configuration allows (ulimit -n)",
                         hard, DESCRIPTORS_OWN, needed);
    if (hard < needed)
        log_warn(
            "the limit of open descriptors is %" PRIu64 "; relay_connections_max %" PRIu32
            " on %" PRIu32 " ports and %" PRIu32 " peers may need %" PRIu64
            ": raise it (ulimit -n) or lower relay_connections_max; connections beyond this fail",
            hard, needs->connections_max, needs->n_ports, needs->peers_max, needed);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set(error, STATUS_IO_FAILED, "limit of open descriptors to %" PRIu64 ": %s",
                         hard, strerror(errno));
    return STATUS_OK;
}
