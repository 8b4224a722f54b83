#include "rpc/runtime/cpu_count.h"

#include "base/cpu_room.h"

#include <stdbool.h>
#include <unistd.h>

uint32_t rpc_cpu_count(void)
{
    struct cpu_room room;
    cpu_room_read("", &room);
    return room.threads;
}

#ifndef KVFERRY_C_LIBRARYS_SYSCONF
/* The C library's sysconf, by its other name. */
long __sysconf(int name); // NOLINT(bugprone-reserved-identifier)

long sysconf(int name)
{
    long answer = __sysconf(name);
    bool is_of_cpus = name == _SC_NPROCESSORS_CONF || name == _SC_NPROCESSORS_ONLN;
    if (!is_of_cpus || answer < 1)
        return answer;
    long n = rpc_cpu_count();
    return n < answer ? n : answer;
}
#endif
