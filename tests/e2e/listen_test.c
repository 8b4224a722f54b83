/* Without being told otherwise no process listens beyond the loopback, UCX's data port included. */

#include "support/cluster.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TCP_LISTEN 0x0au

/* Whether one of the process's descriptors is that socket. */
static bool owns_socket(pid_t pid, unsigned long inode)
{
    char folder[64], path[400], wanted[64], link[64];
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *descriptors = opendir(folder);
    cr_assert_not_null(descriptors);
    bool owns = false;
    for (struct dirent *entry; !owns && (entry = readdir(descriptors));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        owns = n > 0 && strncmp(link, wanted, (size_t)n) == 0 && wanted[n] == '\0';
    }
    closedir(descriptors);
    return owns;
}

/* 127.0.0.1, ::1 and ::ffff:127.0.0.1 as /proc/net writes them: words of the host's byte order. */
static bool is_loopback(const char *address)
{
    size_t n = strlen(address);
    return strcmp(address + n - 8, "0100007F") == 0 ||
           strcmp(address, "00000000000000000000000001000000") == 0;
}

/* Counts the listening sockets of the process in one of the kernel's tables. */
static uint32_t listens(const struct child *child, const char *table)
{
    FILE *file = fopen(table, "r");
    cr_assert_not_null(file, "%s", table);
    char line[512], address[64];
    unsigned state;
    unsigned long inode;
    uint32_t n = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*d: %63[0-9A-F]:%*x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", address,
                   &state, &inode) != 3)
            continue;
        if (state != TCP_LISTEN || !owns_socket(child->pid, inode))
            continue;
        cr_assert(is_loopback(address), "%s listens on %s", child->name, address);
        n++;
    }
    fclose(file);
    return n;
}

static uint32_t listens_at_all(const struct child *child)
{
    return listens(child, "/proc/net/tcp") + listens(child, "/proc/net/tcp6");
}

Test(listen, nothing_is_open_beyond_the_loopback_unless_told)
{
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1, .n_generations = 1});
    cr_assert_geq(listens_at_all(&cluster.contexts[0]), 4, "control, health, metrics, data");
    cr_assert_geq(listens_at_all(&cluster.generations[0]), 4, "control, health, metrics, data");
    cr_assert_geq(listens_at_all(&cluster.router), 4, "grpc, control, health, metrics");
    cluster_stop(&cluster);
}
