/* What a command prints is its result: it fails when that cannot be written, and ends without a word when
 * its reader has gone. */

#include "support/command.h"
#include "support/ports.h"
#include "support/server.h"
#include "support/spawn.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIGPIPE_STATUS (128 + SIGPIPE)

TestSuite(output, .init = command_folder_make, .fini = command_folder_remove);

/* Of a command that prints to that descriptor; its errors are in last_command.err. */
static int run_to(int output, const char *const *words)
{
    char *argv[40] = {(char *)KVFERRY_BINARY};
    for (uint32_t i = 0; words[i]; i++)
        argv[i + 1] = (char *)words[i];
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("errors"));
    int errors = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid = spawn_bound(argv, input, output, errors);
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        cr_assert_lt(clock_now_ns(), until_ns, "%s does not end", words[0]);
        (void)poll(NULL, 0, 2);
    }
    ssize_t n = pread(errors, last_command.err, COMMAND_TEXT_MAX - 1, 0);
    last_command.err[n > 0 ? n : 0] = '\0';
    close(errors);
    close(input);
    cr_assert(WIFEXITED(status), "%s: a signal ended it, %d", words[0], status);
    return WEXITSTATUS(status);
}

static void expect_failures(const char *const *words)
{
    char said[96];
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    snprintf(said, sizeof said, "%s: cannot write to standard output: No space left on device\n",
             words[0][0] == '-' || strcmp(words[0], "help") == 0 ? "kvferry" : words[0]);
    cr_assert_eq(run_to(full, words), EXIT_FAILURE, "%s", words[0]);
    EXPECT_IN(last_command.err, said);
    cr_assert_eq(strchr(last_command.err, '\n')[1], '\0', "more than once: %s", last_command.err);
    close(full);

    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    cr_assert_eq(run_to(ends[1], words), SIGPIPE_STATUS, "%s", words[0]);
    cr_assert_str_empty(last_command.err, "%s", last_command.err);
    close(ends[1]);
}

Test(output, every_command_fails_when_it_cannot_print_and_is_quiet_when_its_reader_has_gone)
{
    struct child server;
    server_start(&server, NULL);
    setenv("KVFERRY_SERVER", address_of(server.grpc), 1);
    char control[32];
    snprintf(control, sizeof control, "%s", address_of(server.control));
    static const char *const SHORT[][4] = {{"version"},
                                           {"--help"},
                                           {"help"},
                                           {"serve", "--help"},
                                           {"gen-worker", "--print-config"},
                                           {"completion", "bash"},
                                           {"completion", "zsh"},
                                           {"completion", "fish"},
                                           {"reference", "config"},
                                           {"reference", "metrics"},
                                           {"reference", "man", "serve"},
                                           {"check-model", KVFERRY_DEMO_MODEL}};
    for (size_t i = 0; i < sizeof SHORT / sizeof *SHORT; i++)
        expect_failures(SHORT[i]);
    expect_failures((const char *const[]){"ps", "--control", control, NULL});
    expect_failures((const char *const[]){"generate", "In the beginning", "--max-tokens", "2000",
                                          "--ignore-eos", NULL});
    expect_failures(
        (const char *const[]){"generate", "In the beginning", "--max-tokens", "4", "--echo", NULL});
    expect_failures((const char *const[]){"generate", "In the beginning", "--max-tokens", "4",
                                          "--echo", "--verbose", NULL});
    expect_failures(
        (const char *const[]){"generate", "In the beginning", "--model", KVFERRY_DEMO_MODEL, NULL});
    child_stop(&server);
    expect_no_temporaries();
}

Test(output, a_server_whose_line_cannot_be_printed_serves)
{
    const char *words[] = {"serve", KVFERRY_DEMO_MODEL, ROUTER_PORTS, "--ports-file", NULL, NULL};
    char ports[160];
    snprintf(ports, sizeof ports, "%s", in_folder("ports"));
    words[13] = ports;
    char *argv[18] = {(char *)KVFERRY_BINARY};
    for (uint32_t i = 0; words[i]; i++)
        argv[i + 1] = (char *)words[i];
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = spawn_bound(argv, null, full, null);
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (access(ports, F_OK) != 0) {
        cr_assert_lt(clock_now_ns(), until_ns, "it is not ready");
        (void)poll(NULL, 0, 5);
    }
    int status = -1;
    cr_assert_eq(kill(pid, SIGTERM), 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    close(full);
    close(null);
}
