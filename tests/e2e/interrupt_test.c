/* Ctrl-C ends a command with 130 and a server when it has finished what it serves; a second one ends either
 * at once. A hang-up ends nothing. No process and no file outlives any of it. */

#include "support/cluster.h"
#include "support/command.h"
#include "support/ports.h"
#include "support/server.h"
#include "support/spawn.h"
#include "support/terminal.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CTRL_C      "\003"
#define INTERRUPTED (128 + SIGINT)

TestSuite(interrupt, .init = command_folder_make, .fini = command_folder_remove);

static struct terminal terminal; /* large */

static void expect_exit(int status, int exit_status)
{
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == exit_status, "wait status %d:\n%s",
              status, terminal.text);
}

/* ---- generate ---- */

/* Text comes, and much is still to come. */
static void start_long_generation(struct terminal *on, const char *flag, const char *value)
{
    terminal_start(on, (const char *const[]){"generate", flag, value, "--max-tokens", "2000",
                                             "--ignore-eos", "--echo", "In the beginning", NULL});
    terminal_wait(on, "In the beginning");
    size_t n = on->n;
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (on->n <= n) {
        cr_assert_lt(clock_now_ns(), until_ns, "no text comes");
        terminal_read(on);
    }
}

Test(interrupt, generate_ends_with_130_and_its_text_with_a_line)
{
    struct child server;
    server_start(&server, NULL);
    start_long_generation(&terminal, "--server", address_of(server.grpc));
    terminal_type(&terminal, CTRL_C);
    expect_exit(terminal_finish(&terminal), INTERRUPTED);
    cr_assert_eq(terminal.text[terminal.n - 1], '\n', "%s", terminal.text);
    cr_assert_null(strstr(terminal.text, "kvferry generate: "), "%s", terminal.text);
    child_stop(&server);
}

Test(interrupt, sigterm_ends_generate_with_143)
{
    struct child server;
    server_start(&server, NULL);
    start_long_generation(&terminal, "--server", address_of(server.grpc));
    cr_assert_eq(kill(terminal.pid, SIGTERM), 0);
    expect_exit(terminal_finish(&terminal), 128 + SIGTERM);
    child_stop(&server);
}

/* Of which nobody reads the standard output, so that nothing ends the call. */
Test(interrupt, a_second_signal_ends_generate_whoever_keeps_it)
{
    struct child server;
    int ends[2], errors = open("/dev/null", O_RDWR | O_CLOEXEC);
    server_start(&server, NULL);
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_gt(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    char address[32];
    snprintf(address, sizeof address, "%s", address_of(server.grpc));
    char *argv[] = {(char *)KVFERRY_BINARY,
                    "generate",
                    "--server",
                    address,
                    "--max-tokens",
                    "2000",
                    "--temperature",
                    "100",
                    "--ignore-eos",
                    "In the beginning",
                    NULL};
    pid_t pid = spawn_bound(argv, errors, ends[1], errors);
    struct pollfd room = {.fd = ends[1], .events = POLLOUT};
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (poll(&room, 1, 0) == 1) {
        cr_assert_lt(clock_now_ns(), until_ns, "the pipe does not fill");
        (void)poll(NULL, 0, 5);
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        cr_assert_lt(clock_now_ns(), until_ns, "it does not end");
        cr_assert_eq(kill(pid, SIGINT), 0);
        (void)poll(NULL, 0, 100);
    }
    expect_exit(status, INTERRUPTED);
    close(ends[0]);
    close(ends[1]);
    close(errors);
    child_stop(&server);
}

static void expect_generate_with_a_model_ends(const char *keys)
{
    struct server_members members;
    start_long_generation(&terminal, "--model", KVFERRY_DEMO_MODEL);
    server_members(terminal.pid, &members);
    cr_assert_eq(members.n, 4, "serve, and the three that it has");
    for (; *keys; keys++)
        terminal_type(&terminal, (const char[]){*keys, 0});
    expect_exit(terminal_finish(&terminal), INTERRUPTED);
    expect_all_gone(&members);
    expect_no_temporaries();
}

Test(interrupt, generate_with_a_model_leaves_nothing)
{
    expect_generate_with_a_model_ends(CTRL_C);
    expect_generate_with_a_model_ends(CTRL_C CTRL_C);
    expect_generate_with_a_model_ends(CTRL_C CTRL_C CTRL_C);
}

Test(interrupt, generate_with_a_model_can_be_ended_while_that_loads)
{
    for (int delay_ms = 0; delay_ms < 200; delay_ms += 10) {
        terminal_start(&terminal, (const char *const[]){"generate", "--model", KVFERRY_DEMO_MODEL,
                                                        "--verbose", "And God", NULL});
        (void)poll(NULL, 0, delay_ms);
        terminal_type(&terminal, CTRL_C);
        int status = terminal_finish(&terminal);
        bool is_early = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
        cr_assert(is_early || status == 0 || WEXITSTATUS(status) == INTERRUPTED,
                  "wait status %d: %s", status, terminal.text);
        expect_no_temporaries();
    }
}

/* ---- ps, check-model, a prompt that is typed ---- */

/* A port that takes connections and says nothing. */
static int silent_listener(char address_out[32])
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&any, bytes), 0);
    cr_assert_eq(listen(fd, 8), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&any, &bytes), 0);
    snprintf(address_out, 32, "127.0.0.1:%u", ntohs(any.sin_port));
    return fd;
}

Test(interrupt, ps_ends_with_130)
{
    char address[32];
    int listener = silent_listener(address);
    terminal_start(&terminal, (const char *const[]){"ps", "--control", address, "--deadline-ms",
                                                    "600s", NULL});
    struct pollfd called = {.fd = listener, .events = POLLIN};
    cr_assert_eq(poll(&called, 1, 60000), 1, "it does not call");
    terminal_type(&terminal, CTRL_C);
    expect_exit(terminal_finish(&terminal), INTERRUPTED);
    close(listener);
}

Test(interrupt, a_prompt_that_is_being_typed_is_given_up)
{
    terminal_start(&terminal, (const char *const[]){"generate", "-", NULL});
    terminal_type(&terminal, "In the beginning\n");
    terminal_wait(&terminal, "In the beginning");
    (void)poll(NULL, 0, 300); /* so that it reads; earlier is right too, but shows less */
    terminal_type(&terminal, CTRL_C);
    int status = terminal_finish(&terminal);
    cr_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == INTERRUPTED, "wait status %d", status);
}

/* Before it has come to its main, the signal itself ends it: 130 to a shell, as well. */
Test(interrupt, check_model_ends_with_130)
{
    bool is_seen = false;
    for (int delay_ms = 0; delay_ms < 400 && !is_seen; delay_ms += 2) {
        terminal_start(&terminal, (const char *const[]){"check-model", KVFERRY_DEMO_MODEL, NULL});
        (void)poll(NULL, 0, delay_ms % 100);
        terminal_type(&terminal, CTRL_C);
        int status = terminal_finish(&terminal);
        is_seen = WIFEXITED(status) && WEXITSTATUS(status) == INTERRUPTED;
        bool is_early = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
        cr_assert(is_seen || is_early || status == 0, "wait status %d", status);
    }
    cr_assert(is_seen, "never interrupted");
}

/* ---- servers ---- */

/* Folders in /dev/shm that a process holds open. */
struct shm_paths {
    uint32_t n;
    char paths[SERVER_MEMBERS_MAX][64];
};

static void add_shm_paths(pid_t pid, struct shm_paths *found)
{
    for (int fd = 0; fd < 256; fd++) {
        char link[48], path[64];
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        if (strncmp(path, "/dev/shm/kvferry-", 17) != 0 || strchr(path + 17, '/'))
            continue;
        cr_assert_lt(found->n, SERVER_MEMBERS_MAX);
        snprintf(found->paths[found->n++], sizeof path, "%s", path);
    }
}

static void expect_no_shm(const struct shm_paths *paths)
{
    for (uint32_t i = 0; i < paths->n; i++)
        cr_assert_neq(access(paths->paths[i], F_OK), 0, "%s is left", paths->paths[i]);
}

static void start_server_on_terminal(struct terminal *on, char grpc_out[32])
{
    terminal_start(on, (const char *const[]){"serve", KVFERRY_DEMO_MODEL, ROUTER_PORTS, "--threads",
                                             "1", "--kv-transport", "unix", "--log-level", "warn",
                                             "--drain-limit-ms", "5m", NULL});
    terminal_wait(on, "ready in ");
    const char *at = strstr(on->text, " at 127.0.0.1:");
    cr_assert(at && sscanf(at, " at %31s", grpc_out) == 1, "%s", on->text);
}

Test(interrupt, ctrl_c_lets_serve_finish_and_a_second_one_does_not)
{
    static struct terminal serve;
    char grpc[32];
    for (int n_signals = 1; n_signals <= 2; n_signals++) {
        struct server_members members;
        struct shm_paths shm = {0};
        start_server_on_terminal(&serve, grpc);
        server_members(serve.pid, &members);
        cr_assert_eq(members.n, 3);
        for (uint32_t i = 0; i < members.n; i++)
            add_shm_paths(members.pids[i], &shm);
        cr_assert_gt(shm.n, 0, "unix has none?");
        start_long_generation(&terminal, "--server", grpc);
        terminal_type(&serve, CTRL_C);
        if (n_signals == 2) {
            terminal_wait(&serve, "^C");
            (void)poll(NULL, 0, 50); /* two that are as one are one */
            terminal_type(&serve, CTRL_C);
        }
        int generated = terminal_finish(&terminal);
        int served = terminal_finish(&serve);
        expect_exit(served, n_signals == 1 ? 0 : INTERRUPTED);
        expect_exit(generated, n_signals == 1 ? 0 : EXIT_FAILURE);
        expect_all_gone(&members);
        expect_no_temporaries();
        expect_no_shm(&shm);
    }
}

Test(interrupt, no_hang_up_ends_a_role)
{
    const struct cluster_options options = {.n_contexts = 1, .n_generations = 1};
    struct cluster cluster;
    cluster_start(&cluster, &options);
    struct child *const roles[] = {&cluster.router, &cluster.contexts[0], &cluster.generations[0]};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        child_signal(roles[i], SIGHUP);
        RUN("ps", "--server", address_of(roles[i]->control));
        EXPECT_OK();
    }
    RUN("generate", "--server", address_of(cluster.router.grpc), "--max-tokens", "3", "And God");
    EXPECT_OK();
    cluster_stop(&cluster);
}

Test(interrupt, serve_goes_on_when_its_terminal_has_gone)
{
    static struct terminal serve;
    struct server_members members;
    char grpc[32];
    start_server_on_terminal(&serve, grpc);
    server_members(serve.pid, &members);
    terminal_close(&serve);
    for (int i = 0; i < 3; i++) {
        RUN("generate", "--server", grpc, "--max-tokens", "3", "In the beginning");
        EXPECT_OK();
    }
    cr_assert_eq(kill(serve.pid, SIGTERM), 0);
    expect_exit(terminal_finish(&serve), 0);
    expect_all_gone(&members);
    expect_no_temporaries();
}
