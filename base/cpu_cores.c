#include "base/cpu_cores.h"

#include "base/cgroup.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX     8192 /* bytes of a list of CPUs or nodes */
#define SLOW_PARTS   2    /* slow: less than one part in so many of the fastest's speed */
#define CPU_FOLDER   "%s/sys/devices/system/cpu/cpu%u%s"
#define NODES_FOLDER "%s/sys/devices/system/node"
#define ATOMS_FOLDER "%s/sys/devices/cpu_atom"

void cpu_list_parse(const char *text, cpu_set_t *cpus_out)
{
    CPU_ZERO(cpus_out);
    while (*text >= '0' && *text <= '9') {
        char *rest;
        unsigned long first = strtoul(text, &rest, 10), last = first;
        if (*rest == '-')
            last = strtoul(rest + 1, &rest, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, cpus_out);
        text = *rest == ',' ? rest + 1 : "";
    }
}

static bool read_list(const char *folder, const char *name, cpu_set_t *cpus_out)
{
    char text[LIST_MAX];
    if (!cgroup_read_text(folder, name, text, sizeof text))
        return false;
    cpu_list_parse(text, cpus_out);
    return true;
}

static bool cpu_folder(const char *root, uint32_t cpu, const char *part, char folder_out[PATH_MAX])
{
    return snprintf(folder_out, PATH_MAX, CPU_FOLDER, root, cpu, part) < PATH_MAX;
}

/* The allowed CPUs of this CPU's core, itself included. */
static void read_siblings(const char *root, uint32_t cpu, const cpu_set_t *allowed,
                          cpu_set_t *siblings_out)
{
    char folder[PATH_MAX];
    if (!cpu_folder(root, cpu, "/topology", folder) ||
        !read_list(folder, "thread_siblings_list", siblings_out))
        CPU_ZERO(siblings_out);
    CPU_AND(siblings_out, siblings_out, allowed);
    CPU_SET(cpu, siblings_out);
}

static uint32_t first_of(const cpu_set_t *cpus)
{
    assert(CPU_COUNT(cpus) > 0);
    uint32_t cpu = 0;
    while (!CPU_ISSET(cpu, cpus))
        cpu++;
    return cpu;
}

/* Larger is faster; only numbers from the same kind of file compare. 0: not known. */
static uint64_t read_speed(const char *root, uint32_t cpu, const char *part, const char *name)
{
    char folder[PATH_MAX];
    uint64_t speed;
    return cpu_folder(root, cpu, part, folder) && cgroup_read_number(folder, name, &speed) ? speed
                                                                                           : 0;
}

/* Removes from fast the CPUs that are slow by this file. A CPU without the file stays. */
static void drop_slow(const char *root, const char *part, const char *name, cpu_set_t *fast)
{
    uint64_t speeds[CPU_SETSIZE] = {0}, greatest = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, fast))
            speeds[cpu] = read_speed(root, cpu, part, name);
        greatest = speeds[cpu] > greatest ? speeds[cpu] : greatest;
    }
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (speeds[cpu] > 0 && speeds[cpu] < greatest / SLOW_PARTS)
            CPU_CLR(cpu, fast);
}

static void drop_atoms(const char *root, cpu_set_t *fast)
{
    char folder[PATH_MAX];
    cpu_set_t atoms, rest;
    if (snprintf(folder, sizeof folder, ATOMS_FOLDER, root) >= PATH_MAX ||
        !read_list(folder, "cpus", &atoms))
        return;
    CPU_AND(&atoms, &atoms, fast);
    CPU_XOR(&rest, fast, &atoms);
    if (CPU_COUNT(&rest) > 0)
        *fast = rest;
}

static void read_nodes(const char *root, struct cpu_cores *cores)
{
    char folder[PATH_MAX], of_node[PATH_MAX];
    cpu_set_t nodes, cpus;
    if (snprintf(folder, sizeof folder, NODES_FOLDER, root) >= PATH_MAX ||
        !read_list(folder, "online", &nodes))
        return;
    for (uint32_t node = CPU_NODES_MAX; node < CPU_SETSIZE; node++)
        if (CPU_ISSET(node, &nodes))
            return;
    for (uint32_t node = 0; node < CPU_NODES_MAX; node++) {
        if (!CPU_ISSET(node, &nodes) ||
            snprintf(of_node, sizeof of_node, "%s/node%u", folder, node) >= PATH_MAX ||
            !read_list(of_node, "cpulist", &cpus))
            continue;
        for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &cpus))
                cores->node_of[cpu] = (uint8_t)node;
    }
}

void cpu_cores_read(const char *root, const struct cpu_room *room, struct cpu_cores *cores_out)
{
    struct cpu_cores cores = {.fast = room->allowed};
    drop_atoms(root, &cores.fast);
    drop_slow(root, "", "cpu_capacity", &cores.fast);
    drop_slow(root, "/cpufreq", "cpuinfo_max_freq", &cores.fast);
    read_nodes(root, &cores);
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t siblings;
        if (!CPU_ISSET(cpu, &room->allowed))
            continue;
        read_siblings(root, cpu, &room->allowed, &siblings);
        if (first_of(&siblings) != cpu)
            continue;
        cores.n_cores++;
        if (!CPU_ISSET(cpu, &cores.fast))
            continue;
        CPU_SET(cpu, &cores.computing);
        cores.nodes |= 1ull << cores.node_of[cpu];
    }
    cores.threads = (uint32_t)CPU_COUNT(&cores.computing);
    if (room->quota > 0 && ceil(room->quota) < cores.threads)
        cores.threads = (uint32_t)ceil(room->quota);
    assert(cores.threads > 0 && cores.nodes != 0 && "the fastest core computes");
    *cores_out = cores;
}

uint32_t cpu_cores_nodes(const struct cpu_cores *cores)
{
    return (uint32_t)__builtin_popcountll(cores->nodes);
}

static uint32_t cores_of_node(const struct cpu_cores *cores, uint32_t node)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        n += CPU_ISSET(cpu, &cores->computing) && cores->node_of[cpu] == node;
    return n;
}

/* The node of the thread's core, when each node in turn gives one of the cores that it has left. */
static uint32_t node_of_thread(const struct cpu_cores *cores, uint32_t thread)
{
    uint32_t left = thread % (uint32_t)CPU_COUNT(&cores->computing);
    for (uint32_t round = 0;; round++)
        for (uint32_t node = 0; node < CPU_NODES_MAX; node++)
            if (cores->nodes >> node & 1 && cores_of_node(cores, node) > round && left-- == 0)
                return node;
}

void cpu_cores_of_thread(const struct cpu_cores *cores, uint32_t thread, cpu_set_t *cpus_out)
{
    const uint32_t node = node_of_thread(cores, thread);
    CPU_ZERO(cpus_out);
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cores->fast) && cores->node_of[cpu] == node)
            CPU_SET(cpu, cpus_out);
}

static uint32_t n_fast(const struct cpu_cores *cores)
{
    return (uint32_t)CPU_COUNT(&cores->computing);
}

bool cpu_cores_want_places(const struct cpu_cores *cores, uint32_t n_threads)
{
    if (cpu_cores_nodes(cores) == 1)
        return n_fast(cores) < cores->n_cores && n_threads <= n_fast(cores);
    for (uint32_t node = 0; node < CPU_NODES_MAX; node++)
        if (cores_of_node(cores, node) >= n_threads)
            return false;
    return true;
}

void cpu_cores_format(const struct cpu_cores *cores, const struct cpu_room *room,
                      char text_out[CPU_CORES_TEXT_MAX])
{
    char cpus[CPU_ROOM_TEXT_MAX], of_cores[40] = "", nodes[32] = "";
    cpu_room_format(room, cpus);
    if (n_fast(cores) < cores->n_cores)
        snprintf(of_cores, sizeof of_cores, ", %u fast of %u cores", n_fast(cores), cores->n_cores);
    else if (cores->n_cores < (uint32_t)CPU_COUNT(&room->allowed))
        snprintf(of_cores, sizeof of_cores, ", %u core%s", cores->n_cores,
                 cores->n_cores == 1 ? "" : "s");
    if (cpu_cores_nodes(cores) > 1)
        snprintf(nodes, sizeof nodes, ", %u memory nodes", cpu_cores_nodes(cores));
    snprintf(text_out, CPU_CORES_TEXT_MAX, "%s%s%s", cpus, of_cores, nodes);
}

void cpu_set_nth(const cpu_set_t *cpus, uint32_t nth, cpu_set_t *one_out)
{
    assert(nth < (uint32_t)CPU_COUNT(cpus));
    uint32_t cpu = 0;
    while (!CPU_ISSET(cpu, cpus) || nth-- > 0)
        cpu++;
    CPU_ZERO(one_out);
    CPU_SET(cpu, one_out);
}
