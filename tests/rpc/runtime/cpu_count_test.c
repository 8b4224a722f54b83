/* cpu_count: gRPC is told of the CPUs that this process may use, and of nothing else anything new. `ctest -R rpc_one_cpu` runs
 * this with one CPU, which no machine with two says by itself. */
#include "base/cpu_room.h"
#include "rpc/runtime/cpu_count.h"

#include <criterion/criterion.h>
#include <grpc/support/cpu.h>
#include <unistd.h>

#ifndef KVFERRY_C_LIBRARYS_SYSCONF
Test(cpu_count, grpc_is_told_of_the_cpus_that_there_is_room_on)
{
    struct cpu_room room;
    cpu_room_read("", &room);
    cr_expect_eq(rpc_cpu_count(), room.threads);
    cr_expect_eq(gpr_cpu_num_cores(), room.threads);
    cr_expect_eq(sysconf(_SC_NPROCESSORS_ONLN), room.threads);
}
#endif

Test(cpu_count, all_else_is_the_c_librarys_answer)
{
    cr_expect_eq(sysconf(_SC_PAGESIZE), getpagesize());
    cr_expect_eq(sysconf(_SC_OPEN_MAX), getdtablesize());
    cr_expect_eq(sysconf(-12345), -1);
}
