/* cpu_room: the CPUs that are allowed, or the lowest quota of the cgroups rounded up where that is less. */
#include "base/cpu_room.h"
#include "support/laid_out.h"

#include <criterion/criterion.h>

TestSuite(cpu_room, .init = laid_out_make, .fini = laid_out_remove);

static struct cpu_room read_room(void)
{
    struct cpu_room room;
    cpu_room_read(laid_out_root, &room);
    return room;
}

static uint32_t n_allowed(void)
{
    cpu_set_t allowed;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    return (uint32_t)CPU_COUNT(&allowed);
}

static void write_quota(const char *text)
{
    laid_out_write("proc/self/cgroup", "0::/\n");
    laid_out_write("sys/fs/cgroup/cpu.max", text);
}

Test(cpu_room, without_a_quota_it_is_the_affinity)
{
    struct cpu_room room = read_room();
    cr_expect_eq(room.quota, 0);
    cr_expect_eq(room.threads, n_allowed());
    write_quota("max 100000\n");
    room = read_room();
    cr_expect_eq(room.quota, 0);
    cr_expect_eq(room.threads, n_allowed());
}

Test(cpu_room, a_quota_below_the_affinity_is_rounded_up)
{
    static const struct {
        const char *text;
        double quota;
        uint32_t threads; /* on a machine of many CPUs */
    } ROWS[] = {{"5000 100000\n", 0.05, 1},
                {"100000 100000\n", 1, 1},
                {"150000 100000\n", 1.5, 2},
                {"20000 10000\n", 2, 2},
                {"640000000 100000\n", 6400, 6400}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        write_quota(ROWS[i].text);
        struct cpu_room room = read_room();
        uint32_t least = ROWS[i].threads < n_allowed() ? ROWS[i].threads : n_allowed();
        cr_expect_float_eq(room.quota, ROWS[i].quota, 1e-9, "%s", ROWS[i].text);
        cr_expect_eq(room.threads, least, "%s: %u threads", ROWS[i].text, room.threads);
    }
}

Test(cpu_room, the_lowest_quota_of_all_groups_above_counts)
{
    laid_out_write("proc/self/cgroup", "0::/pods/one\n");
    laid_out_write("sys/fs/cgroup/pods/one/cpu.max", "300000 100000\n");
    laid_out_write("sys/fs/cgroup/pods/cpu.max", "75000 100000\n");
    cr_expect_float_eq(read_room().quota, 0.75, 1e-9);
}

Test(cpu_room, version_1_has_files_of_its_own_beside_other_controllers)
{
    laid_out_write("proc/self/cgroup", "9:cpuset:/x\n4:cpu,cpuacct:/a\n0::/\n");
    laid_out_write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
    laid_out_write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    laid_out_write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    laid_out_write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    laid_out_write("sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "1\n");
    laid_out_write("sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "100000\n");
    struct cpu_room room = read_room();
    cr_expect_float_eq(room.quota, 0.5, 1e-9);
    cr_expect_eq(room.threads, 1);
}

Test(cpu_room, files_that_make_no_sense_are_no_quota)
{
    static const char *const TEXTS[] = {"", "x", "100000", "0 100000\n", "100000 0\n", "-1 100000"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        write_quota(TEXTS[i]);
        struct cpu_room room = read_room();
        cr_expect_eq(room.quota, 0, "\"%s\" is a quota of %g", TEXTS[i], room.quota);
        cr_expect_eq(room.threads, n_allowed());
    }
}

Test(cpu_room, a_text_says_which_number_and_why)
{
    char text[CPU_ROOM_TEXT_MAX];
    struct cpu_room room = {.quota = 1.5};
    CPU_ZERO(&room.allowed);
    CPU_SET(0, &room.allowed);
    CPU_SET(5, &room.allowed);
    cpu_room_format(&room, text);
    cr_expect_str_eq(text, "CPU quota 1.5 of 2 CPUs");
    room.quota = 0;
    cpu_room_format(&room, text);
    cr_expect_str_eq(text, "2 CPUs");
}
