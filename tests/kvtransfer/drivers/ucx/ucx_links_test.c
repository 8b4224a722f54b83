/* A device whose link comes while the worker starts: in a network of the test's own, a pair of devices of which one is
 * up, and the other, which is its link, not yet. */
#include "base/clock.h"
#include "kvtransfer/driver.h"
#include "kvtransfer/drivers/ucx/ucx_address.h"
#include "kvtransfer/drivers/ucx/ucx_links.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_NS (60 * NS_PER_S)

/* ip WORDS... */
static pid_t begin_ip(const char *words)
{
    char line[128], *arguments[16] = {"ip"}, *rest = NULL;
    size_t n = 1;
    snprintf(line, sizeof line, "%s", words);
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[n++] = word;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        execvp("ip", arguments);
        _exit(127);
    }
    return pid;
}

static void end_ip(pid_t pid)
{
    int ended;
    cr_assert_eq(waitpid(pid, &ended, 0), pid);
    cr_assert_eq(ended, 0);
}

static void ip(const char *words)
{
    end_ip(begin_ip(words));
}

static void make_network(void)
{
    /* /sys shows the devices of the network in which it was mounted. */
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        cr_skip_test("no network of its own can be made here: %m");
    ip("link set lo up");
    ip("link add near type veth peer name far");
    ip("addr add 10.9.8.7/24 dev near");
    ip("link set near up");
}

Test(ucx_links, who_has_none_is_named)
{
    char missing[IF_NAMESIZE];
    make_network();
    cr_assert_not(ucx_links_wait(NULL, 0, missing));
    cr_assert_str_eq(missing, "near");
    cr_assert_not(ucx_links_wait("lo,near", NS_PER_MS, missing));
    cr_assert_str_eq(missing, "near");
}

static bool is_running(const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    cr_assert_eq(ioctl(fd, SIOCGIFFLAGS, &request), 0, "%m");
    close(fd);
    return request.ifr_flags & IFF_RUNNING;
}

Test(ucx_links, who_is_not_asked_for_has_no_address_or_is_a_bridge_does_not_matter)
{
    char missing[IF_NAMESIZE];
    make_network();
    cr_assert(ucx_links_wait("lo", 0, missing));
    ip("link set near addrgenmode none");
    ip("addr flush dev near");
    cr_assert(ucx_links_wait(NULL, 0, missing), "%s", missing);
    ip("link add plugs type bridge");
    ip("addr add 10.9.7.1/24 dev plugs");
    ip("link set far master plugs");
    ip("link set plugs up");
    const uint64_t limit_ns = clock_now_ns() + LONG_NS;
    while (is_running("plugs")) /* until the kernel has looked at its ports */
        cr_assert_lt(clock_now_ns(), limit_ns);
    cr_assert(ucx_links_wait(NULL, 0, missing), "%s", missing);
    cr_assert_not(ucx_links_wait("plugs", 0, missing));
}

Test(ucx_links, one_that_comes_is_waited_for)
{
    char missing[IF_NAMESIZE];
    make_network();
    pid_t pid = begin_ip("link set far up"); /* a moment later */
    cr_assert(ucx_links_wait(NULL, LONG_NS, missing), "%s", missing);
    cr_assert_str_empty(missing);
    end_ip(pid);
}

Test(ucx_links, a_workers_address_has_the_device_whose_link_came_late)
{
    make_network();
    struct transport *transport;
    struct transport_address address;
    struct error error = {""};
    const struct driver_options options = {
        .driver = KV_AM_TCP, .incarnation = 1, .peers_max = 4, .gets_max = 1, .reads_max = 1};
    pid_t pid = begin_ip("link set far up"); /* a moment later */
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    transport->ops->address(transport, &address);
    transport->ops->close(transport);
    uint32_t lengths = ucx_address_device_lengths(address.worker, address.worker_bytes);
    cr_assert_neq(lengths & (lengths - 1), 0, "devices of one kind only: %x", lengths);
    end_ip(pid);
}
