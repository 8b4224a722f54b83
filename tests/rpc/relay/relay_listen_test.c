/* relay's listening: every kind of address, words for what cannot be, and a lack of descriptors that passes. */
#include "rpc/relay/peer_table.h"
#include "tests/rpc/support/relay_bed.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

TestSuite(relay_listen, .timeout = 120);

/* ---- descriptors ---- */

Test(relay_listen, a_lack_of_descriptors_passes)
{
    enum { N = 64 };
    int fds[N], core;
    struct rlimit before, none;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < N; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_geq(fds[i], 0);
    }
    none = before;
    none.rlim_cur = 8;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(relay_port(relay_bed.relay)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < N; i++)
        cr_assert_eq(connect(fds[i], (struct sockaddr *)&to, sizeof to), 0);
    relay_bed_wait_struck(RELAY_LIMIT_DESCRIPTORS, 1);
    cr_expect_geq(relay_failed_accepts(), 1);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close(relay_bed_greet(2, &core));
    relay_bed_stop();
}

/* ---- addresses ---- */

Test(relay_listen, a_port_in_use_is_refused_with_words)
{
    struct error error = {""};
    struct relay *second;
    char address[32];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    struct relay_options options = relay_bed.options;
    snprintf(address, sizeof address, "127.0.0.1:%u", relay_port(relay_bed.relay));
    options.address = address;
    cr_assert_eq(relay_open(&options, &error, &second), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, address) && strstr(error.text, "in use"), "%s", error.text);
    options.address = "192.0.2.1:0";
    cr_assert_eq(relay_open(&options, &error, &second), STATUS_IO_FAILED);
    options.address = "127.0.0.1:0";
    options.limits.exempt = "everybody";
    cr_assert_eq(relay_open(&options, &error, &second), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "everybody"), "%s", error.text);
    relay_bed_stop();
}

Test(relay_listen, a_unix_socket_is_taken_over_from_the_dead_and_removed)
{
    char path[64], address[80];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct stat found;
    struct error error = {""};
    struct relay *second;
    char folder[] = "/tmp/kvferry-relay-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(address, sizeof address, "unix:%s", path);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(dead, (struct sockaddr *)&to, sizeof to), 0);
    close(dead);

    relay_bed_prepare(address);
    relay_bed_start();
    cr_expect_eq(relay_port(relay_bed.relay), 0);
    cr_expect_eq(relay_open(&relay_bed.options, &error, &second), STATUS_IO_FAILED, "it is alive");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    relay_bed_say(fd, RELAY_BED_HELLO, RELAY_BED_HELLO_BYTES);
    char name[32];
    struct rpc_peer peer;
    snprintf(name, sizeof name, "fd:%d", relay_bed_core_at(0));
    cr_assert(peer_table_find(name, &peer));
    cr_expect_str_eq(peer.address, "unix:");
    close(fd);
    relay_bed_stop();
    cr_expect_neq(stat(path, &found), 0, "the file is gone");
    rmdir(folder);
}

Test(relay_listen, everywhere_is_both_families)
{
    relay_bed_prepare("[::]:0");
    struct error error = {""};
    if (relay_open(&relay_bed.options, &error, &relay_bed.relay) != STATUS_OK)
        cr_skip("no IPv6 here");
    cr_assert_eq(relay_start(relay_bed.relay, &error), STATUS_OK);
    int core, fd = relay_bed_greet(3, &core);
    char name[32];
    struct rpc_peer peer;
    snprintf(name, sizeof name, "fd:%d", core);
    cr_assert(peer_table_find(name, &peer));
    cr_expect_eq(strncmp(peer.address, "ipv4:127.0.0.3:", 15), 0, "%s", peer.address);
    close(fd);
    relay_bed_stop();
}
