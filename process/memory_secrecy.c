#include "process/memory_secrecy.h"

#include "base/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Tells the kernel to write no mappings into a core file. */
static bool write_empty_filter(void)
{
    int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    bool is_written = fd >= 0 && write(fd, "0\n", 2) == 2;
    if (fd >= 0)
        close(fd);
    return is_written;
}

/* The limit alone is not enough: the kernel ignores it when core files go to a program. */
void memory_secrecy_begin(bool is_shared)
{
    struct rlimit none = {0, 0};
    bool is_done = setrlimit(RLIMIT_CORE, &none) == 0;
    is_done = write_empty_filter() && is_done;
    if (!is_shared)
        is_done = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && is_done;
    if (!is_done)
        log_warn("core files cannot be turned off: %s", strerror(errno));
}
