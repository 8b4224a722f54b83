/* memory_nodes: memory touched afterwards is interleaved over the nodes; a node that the machine does not have is refused. */
#include "base/memory_nodes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool may_set_policies(void)
{
    return syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0) == 0;
}

struct policy {
    int mode;
    unsigned long nodes[16];
};

static void *read_policy(void *arg)
{
    struct policy *policy = arg;
    cr_assert_eq(
        syscall(SYS_get_mempolicy, &policy->mode, policy->nodes, sizeof policy->nodes * 8, NULL, 0),
        0);
    return NULL;
}

Test(memory_nodes, threads_started_later_and_their_memory_follow)
{
    if (!may_set_policies())
        cr_skip_test("no memory policies here");
    struct error error;
    struct policy policy = {0};
    pthread_t thread;
    int node = -1;
    cr_assert_eq(memory_nodes_interleave(1, &error), STATUS_OK);
    cr_assert_eq(pthread_create(&thread, NULL, read_policy, &policy), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(policy.mode, MPOL_INTERLEAVE);
    cr_expect_eq(policy.nodes[0], 1);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
    cr_expect_eq(syscall(SYS_get_mempolicy, &node, NULL, 0, page, MPOL_F_NODE | MPOL_F_ADDR), 0);
    cr_expect_eq(node, 0);
    munmap(page, 4096);
}

Test(memory_nodes, nodes_that_do_not_exist_are_refused_with_the_cause)
{
    if (!may_set_policies())
        cr_skip_test("no memory policies here");
    struct error error = {""};
    cr_expect_eq(memory_nodes_interleave(1ull << 63, &error), STATUS_UNSUPPORTED);
    cr_expect_str_eq(error.text, "set_mempolicy(MPOL_INTERLEAVE): Invalid argument");
}
