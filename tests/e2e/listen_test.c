/* Without being told otherwise no process listens beyond the loopback, UCX's data port included;
 * told to listen everywhere, it does so on both families. */

#include "support/cluster.h"
#include "support/command.h"
#include "tests/base/support/loopback.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
    cluster_start(&cluster,
                  &(struct cluster_options){
                      .n_contexts = 1,
                      .n_generations = 1,
                      .router = (const char *const[]){"--engine-address", "127.0.0.1:0", NULL}});
    cr_assert_geq(listens_at_all(&cluster.contexts[0]), 4, "control, health, metrics, data");
    cr_assert_geq(listens_at_all(&cluster.generations[0]), 4, "control, health, metrics, data");
    cr_assert_geq(listens_at_all(&cluster.router), 5, "grpc, engine, control, health, metrics");
    cluster_stop(&cluster);
}

/* Which no certificate changes, as the port has none. */
Test(listen, a_port_of_gateways_beyond_the_loopback_wants_to_be_asked_for,
     .init = command_folder_make, .fini = command_folder_remove)
{
    static const char *const ADDRESSES[] = {"0.0.0.0:0", "[::]:0", ":0"};
    for (size_t i = 0; i < 3; i++) {
        RUN("router", KVFERRY_DEMO_MODEL, "--check-config", "--engine-address", ADDRESSES[i]);
        expect_refused("gateways speak clear text to this port and send no tokens");
        expect_refused(ADDRESSES[i]);
        RUN("serve", KVFERRY_DEMO_MODEL, "--check-config", "--engine-address", ADDRESSES[i]);
        expect_refused("gateways speak clear text to this port and send no tokens");
    }
    RUN("router", KVFERRY_DEMO_MODEL, "--check-config", "--engine-address", "0.0.0.0:0",
        "--insecure");
    EXPECT_OK();
}

/* ---- every interface, of both families ---- */

static bool answers(int family, uint16_t port)
{
    int fd = loopback_connect(family, port);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void expect_both_families(const char *any)
{
    struct child router;
    child_start_unready(&router, command_folder, "router",
                        (const char *const[]){"router", KVFERRY_DEMO_MODEL, "--grpc-address", any,
                                              "--control-address", any, "--health-address", any,
                                              "--metrics-address", any, "--engine-address", any,
                                              "--insecure", "--cluster-key", in_folder("key"),
                                              NULL});
    const uint16_t ports[] = {router.grpc, router.engine, router.control, router.health,
                              router.metrics};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        cr_expect(answers(AF_INET, ports[i]), "%s: port %zu takes no IPv4", any, i);
        cr_expect(answers(AF_INET6, ports[i]), "%s: port %zu takes no IPv6", any, i);
    }
    child_stop(&router);
}

Test(listen, no_host_and_any_host_of_ipv6_take_both_families, .init = command_folder_make,
     .fini = command_folder_remove)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) != 0)
        cr_skip_test("this machine has no ::1");
    close(fd);
    char key[160];
    snprintf(key, sizeof key, "%s", in_folder("key"));
    RUN("key", key);
    EXPECT_OK();
    expect_both_families("[::]:0");
    expect_both_families(":0");
}
