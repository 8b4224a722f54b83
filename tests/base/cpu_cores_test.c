/* cpu_cores: one thread a fast core that is allowed, whatever the machine: hybrid, SMT, several nodes, a quota, offline CPUs. */
#include "base/cpu_cores.h"
#include "support/laid_out.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(cpu_cores, .init = laid_out_make, .fini = laid_out_remove);

static void write_node(uint32_t node, const char *cpus)
{
    char path[64];
    snprintf(path, sizeof path, "sys/devices/system/node/node%u/cpulist", node);
    laid_out_write(path, cpus);
}

static struct cpu_cores read_cores(const char *allowed, double quota)
{
    struct cpu_room room = {.quota = quota};
    struct cpu_cores cores;
    cpu_list_parse(allowed, &room.allowed);
    cpu_cores_read(laid_out_root, &room, &cores);
    return cores;
}

static void expect_cpus(const cpu_set_t *cpus, const char *expected)
{
    cpu_set_t wanted;
    cpu_list_parse(expected, &wanted);
    cr_expect(CPU_EQUAL(cpus, &wanted), "%d CPUs, not those of \"%s\"", CPU_COUNT(cpus), expected);
}

static void expect_text(const struct cpu_cores *cores, const char *allowed, double quota,
                        const char *expected)
{
    struct cpu_room room = {.quota = quota};
    char text[CPU_CORES_TEXT_MAX];
    cpu_list_parse(allowed, &room.allowed);
    cpu_cores_format(cores, &room, text);
    cr_expect_str_eq(text, expected);
}

/* 8 performance cores of two threads, CPUs 0-15, and 8 efficiency cores, CPUs 16-23. */
static void write_laptop(void)
{
    for (uint32_t cpu = 0; cpu < 16; cpu++)
        laid_out_write_siblings(cpu, cpu / 2 * 2, cpu / 2 * 2 + 1);
    for (uint32_t cpu = 16; cpu < 24; cpu++)
        laid_out_write_siblings(cpu, cpu, cpu);
    laid_out_write("sys/devices/cpu_core/cpus", "0-15\n");
    laid_out_write("sys/devices/cpu_atom/cpus", "16-23\n");
    laid_out_write("sys/devices/system/node/online", "0\n");
    write_node(0, "0-23\n");
}

/* 64 cores of two threads: cores 0-31 with the siblings 64-95 on node 0, the others on node 1. */
static void write_server(void)
{
    for (uint32_t cpu = 0; cpu < 128; cpu++)
        laid_out_write_siblings(cpu, cpu % 64, cpu % 64 + 64);
    laid_out_write("sys/devices/system/node/online", "0-1\n");
    write_node(0, "0-31,64-95\n");
    write_node(1, "32-63,96-127\n");
}

Test(cpu_cores, without_files_each_cpu_is_a_fast_core)
{
    struct cpu_cores cores = read_cores("0-2,7", 0);
    cr_expect_eq(cores.threads, 4);
    cr_expect_eq(cores.n_cores, 4);
    cr_expect_eq(cores.nodes, 1);
    expect_cpus(&cores.computing, "0-2,7");
    cr_expect_not(cpu_cores_want_places(&cores, cores.threads));
    expect_text(&cores, "0-2,7", 0, "4 CPUs");
}

Test(cpu_cores, a_laptop_computes_on_one_thread_of_each_performance_core)
{
    write_laptop();
    struct cpu_cores cores = read_cores("0-23", 0);
    cr_expect_eq(cores.threads, 8);
    expect_cpus(&cores.computing, "0,2,4,6,8,10,12,14");
    expect_cpus(&cores.fast, "0-15");
    cr_expect(cpu_cores_want_places(&cores, cores.threads));
    expect_text(&cores, "0-23", 0, "24 CPUs, 8 fast of 16 cores");
    cpu_set_t cpus;
    cpu_cores_of_thread(&cores, 3, &cpus);
    expect_cpus(&cpus, "0-15");
}

Test(cpu_cores, only_efficiency_cores_allowed_compute)
{
    write_laptop();
    struct cpu_cores cores = read_cores("18-23", 0);
    cr_expect_eq(cores.threads, 6);
    expect_cpus(&cores.computing, "18-23");
    cr_expect_not(cpu_cores_want_places(&cores, cores.threads));
}

Test(cpu_cores, a_sibling_alone_is_a_core)
{
    write_laptop();
    struct cpu_cores cores = read_cores("1,3,4,5", 0);
    cr_expect_eq(cores.threads, 3);
    expect_cpus(&cores.computing, "1,3,4");
    expect_text(&cores, "1,3,4,5", 0, "4 CPUs, 3 cores");
}

Test(cpu_cores, slow_is_less_than_half_of_the_greatest_capacity)
{
    static const char *const CAPACITIES[] = {"1024\n", "740\n", "512\n", "250\n"};
    for (uint32_t cpu = 0; cpu < 4; cpu++)
        laid_out_write_cpu(cpu, "cpu_capacity", CAPACITIES[cpu]);
    struct cpu_cores cores = read_cores("0-3", 0);
    expect_cpus(&cores.computing, "0-2");
    cores = read_cores("3", 0);
    expect_cpus(&cores.computing, "3");
}

Test(cpu_cores, without_capacities_the_greatest_frequency_decides)
{
    laid_out_write_cpu(0, "cpufreq/cpuinfo_max_freq", "5000000\n");
    laid_out_write_cpu(1, "cpufreq/cpuinfo_max_freq", "3700000\n");
    laid_out_write_cpu(2, "cpufreq/cpuinfo_max_freq", "2400000\n");
    struct cpu_cores cores = read_cores("0-3", 0); /* 3 has no file and stays */
    expect_cpus(&cores.computing, "0,1,3");
}

Test(cpu_cores, sixty_four_cores_on_two_nodes_get_a_thread_each)
{
    write_server();
    struct cpu_cores cores = read_cores("0-127", 0);
    cr_expect_eq(cores.threads, 64);
    expect_cpus(&cores.computing, "0-63");
    cr_expect_eq(cores.nodes, 3);
    cr_expect(cpu_cores_want_places(&cores, cores.threads));
    cr_expect(cpu_cores_want_places(&cores, 33));
    cr_expect_not(cpu_cores_want_places(&cores, 32), "they fit on either node");
    expect_text(&cores, "0-127", 0, "128 CPUs, 64 cores, 2 memory nodes");
    for (uint32_t thread = 0; thread < 130; thread++) {
        cpu_set_t cpus;
        cpu_cores_of_thread(&cores, thread, &cpus);
        expect_cpus(&cpus, thread % 2 == 0 ? "0-31,64-95" : "32-63,96-127");
    }
}

Test(cpu_cores, a_node_gets_no_more_threads_than_it_has_cores)
{
    write_server();
    struct cpu_cores cores = read_cores("0-3,32,64-67", 0);
    cr_expect_eq(cores.threads, 5);
    uint32_t n_first = 0;
    for (uint32_t thread = 0; thread < 5; thread++) {
        cpu_set_t cpus;
        cpu_cores_of_thread(&cores, thread, &cpus);
        n_first += CPU_ISSET(0, &cpus) != 0;
    }
    cr_expect_eq(n_first, 4);
}

Test(cpu_cores, a_cpuset_of_one_node_is_one_node)
{
    write_server();
    struct cpu_cores cores = read_cores("32-35,96-99", 0);
    cr_expect_eq(cores.threads, 4);
    cr_expect_eq(cores.nodes, 2);
    cr_expect_eq(cpu_cores_nodes(&cores), 1);
    cr_expect_not(cpu_cores_want_places(&cores, cores.threads));
}

Test(cpu_cores, a_quota_is_rounded_up_and_never_raises)
{
    write_server();
    cr_expect_eq(read_cores("0-127", 1.5).threads, 2);
    cr_expect_eq(read_cores("0-127", 0.2).threads, 1);
    cr_expect_eq(read_cores("0-127", 100).threads, 64);
    struct cpu_cores cores = read_cores("0-127", 1.5);
    expect_text(&cores, "0-127", 1.5, "CPU quota 1.5 of 128 CPUs, 64 cores, 2 memory nodes");
}

Test(cpu_cores, a_core_whose_first_thread_is_offline_computes_on_the_other)
{
    laid_out_write_siblings(0, 0, 4);
    laid_out_write_siblings(5, 5, 5); /* 1 is offline: the kernel names it no more */
    laid_out_write_cpu(1, "topology/thread_siblings_list", ""); /* and its folder is empty */
    struct cpu_cores cores = read_cores("0,4-5", 0);
    expect_cpus(&cores.computing, "0,4,5"); /* 4 names no sibling */
    laid_out_write_siblings(4, 0, 4);
    cores = read_cores("0,4-5", 0);
    expect_cpus(&cores.computing, "0,5");
}

Test(cpu_cores, nodes_beyond_the_bound_count_as_one)
{
    write_server();
    laid_out_write("sys/devices/system/node/online", "0-1,64\n");
    cr_expect_eq(read_cores("0-127", 0).nodes, 1);
}

Test(cpu_cores, a_list_is_read_as_the_kernel_writes_it)
{
    static const struct {
        const char *text;
        int n;
    } ROWS[] = {{"0-3,8,10-11\n", 7},   {"", 0},   {"\n", 0},  {"5", 1}, {"x", 0}, {"3-1", 0},
                {"1022-4000000000", 2}, {"1,", 1}, {"1,,2", 1}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        cpu_set_t cpus;
        cpu_list_parse(ROWS[i].text, &cpus);
        cr_expect_eq(CPU_COUNT(&cpus), ROWS[i].n, "\"%s\"", ROWS[i].text);
    }
}
