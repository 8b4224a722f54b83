/* `drain` has a process finish what it has and take no more, and waits for that when it is told to. */

#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"

#include <criterion/criterion.h>
#include <signal.h>

#define LIMIT_MS 60000

TestSuite(drain, .init = command_folder_make, .fini = command_folder_remove);

static const struct cluster_options OPTIONS = {.n_contexts = 1, .n_generations = 1};

Test(drain, what_runs_ends_well_and_nothing_new_begins)
{
    struct cluster cluster;
    static struct generation running;
    uint32_t prompt[64];
    cluster_start(&cluster, &OPTIONS);
    struct client *client = client_create(cluster.router.grpc);
    prompt_tokens(1, prompt, 64);
    running = (struct generation){
        .tokens = prompt, .n_tokens = 64, .max_tokens = 300, .ignore_eos = true};
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, LIMIT_MS));
    cr_assert_eq(kill(cluster.generations[0].pid, SIGSTOP), 0);

    RUN("drain", "--server", address_of(cluster.router.control), "--wait-ms", "200ms");
    expect_refused("still has requests after 200 ms");
    cr_assert_eq(kill(cluster.generations[0].pid, SIGCONT), 0);
    RUN("drain", "--server", address_of(cluster.router.control), "--wait-ms", "60s");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "requests running 0 waiting 0");
    cr_assert(client_wait(client, &running, LIMIT_MS));
    cr_assert_eq(running.error.status, STATUS_OK, "%s", running.error.message);
    cr_assert_eq(running.n_generated, 300);
    cr_assert_gt(running.kv_bytes_received, 0);

    RUN("generate", "--server", address_of(cluster.router.grpc), "In the beginning");
    expect_refused("DRAINING");
    client_destroy(client);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(drain, a_port_that_takes_no_drain_and_nobody_are_told_apart)
{
    struct cluster cluster;
    cluster_start(&cluster, &OPTIONS);
    RUN("drain", "--server", address_of(cluster.router.grpc));
    expect_refused("this port takes no Drain: name the process's control port");
    RUN("drain", "--server", "127.0.0.1:1");
    expect_refused("nobody listens at 127.0.0.1:1");
    RUN("generate", "--server", address_of(cluster.router.grpc), "--max-tokens", "2", "In the");
    EXPECT_OK();
    cluster_stop(&cluster);
}
