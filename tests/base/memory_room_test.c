/* memory_room: the least of what the machine and the cgroups above have left. */
#include "base/memory_room.h"
#include "support/laid_out.h"

#include <criterion/criterion.h>

TestSuite(memory_room, .init = laid_out_make, .fini = laid_out_remove);

static struct memory_room read_room(void)
{
    struct memory_room room;
    cr_assert_eq(memory_room_read(laid_out_root, &room), STATUS_OK);
    return room;
}

#define MEMINFO "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable:    2000 kB\nSwapFree: 1 kB\n"

Test(memory_room, without_a_cgroup_it_is_what_the_machine_has)
{
    laid_out_write("proc/meminfo", MEMINFO);
    struct memory_room room = read_room();
    cr_assert_eq(room.available_bytes, 2000 * 1024);
    cr_assert_eq(room.limit_bytes, 0);
}

Test(memory_room, every_group_above_has_a_say)
{
    laid_out_write("proc/meminfo", MEMINFO);
    laid_out_write("proc/self/cgroup", "0::/pods/one\n");
    laid_out_write("sys/fs/cgroup/pods/one/memory.max", "max\n");
    laid_out_write("sys/fs/cgroup/pods/one/memory.current", "5\n");
    laid_out_write("sys/fs/cgroup/pods/memory.max", "1000000\n");
    laid_out_write("sys/fs/cgroup/pods/memory.current", "600000\n");
    laid_out_write("sys/fs/cgroup/pods/memory.stat", "anon 3\nfile 9\ninactive_file 100000\n");
    struct memory_room room = read_room();
    cr_assert_eq(room.limit_bytes, 1000000);
    cr_assert_eq(room.available_bytes, 500000);
}

Test(memory_room, in_a_container_the_root_is_the_group)
{
    laid_out_write("proc/meminfo", MEMINFO);
    laid_out_write("proc/self/cgroup", "0::/../../kubepods/x\n");
    laid_out_write("sys/fs/cgroup/memory.max", "300000\n");
    laid_out_write("sys/fs/cgroup/memory.current", "400000\n");
    struct memory_room room = read_room();
    cr_assert_eq(room.limit_bytes, 300000);
    cr_assert_eq(room.available_bytes, 0);
}

Test(memory_room, version_1_has_names_of_its_own)
{
    laid_out_write("proc/meminfo", MEMINFO);
    laid_out_write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n");
    laid_out_write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1500000\n");
    laid_out_write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "500000\n");
    laid_out_write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    laid_out_write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    struct memory_room room = read_room();
    cr_assert_eq(room.limit_bytes, 1500000);
    cr_assert_eq(room.available_bytes, 1000000);
}

Test(memory_room, this_machine_says_something)
{
    struct memory_room room;
    cr_assert_eq(memory_room_read("", &room), STATUS_OK);
    cr_assert_gt(room.available_bytes, 0);
    cr_assert_eq(memory_room_read(laid_out_root, &room), STATUS_IO_FAILED);
}
