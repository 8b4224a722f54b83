/* `serve` is ready when its router has seen every worker: the first prompt crosses however late the
 * context worker was, and one that the router has not seen is named in the line that says so. */

#include "support/command.h"
#include "support/ports.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ATTEMPTS_MAX = 20 };

/* More tokens than are computed where they are decoded. */
#define PROMPT                                                                                     \
    "1 And the children of Israel did according to all these words. 2 And the children of Israel " \
    "did according to all these words. 3 And the children of Israel did according to all words."

static struct command server;

static void make_folder(void)
{
    command_folder_make();
    /* Once it serves, a router that has not seen all its workers would not look for them again here. */
    cr_assert_eq(setenv("KVFERRY_POLL_MS", "20s", 1), 0);
}

TestSuite(serve_ready, .init = make_folder, .fini = command_folder_remove);

/* A child of serve. */
struct member {
    pid_t pid;
    char ports[256]; /* its ports file */
};

static void start_serve(void)
{
    const char *const words[] = {"serve",        KVFERRY_DEMO_MODEL,
                                 "--ports-file", in_folder("ports"),
                                 "--log-level",  "error",
                                 "--threads",    "1",
                                 ROUTER_PORTS,   NULL};
    command_start(&server, NULL, words);
}

static void stop_serve(void)
{
    cr_assert_eq(kill(server.pid, SIGTERM), 0);
    command_finish(&server);
    cr_assert_eq(server.exit_status, 0, "%s", server.err);
}

/* Fills member if that process is of that role. */
static bool is_member(int pid, const char *role, struct member *member)
{
    if (!member_ports_file(pid, role, member->ports))
        return false;
    member->pid = pid;
    return true;
}

static void pause_briefly(uint64_t until_ns, const char *what)
{
    cr_assert_lt(clock_now_ns(), until_ns, "%s never comes", what);
    (void)poll(NULL, 0, 1);
}

static struct member wait_member(const char *role)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    struct member member = {0};
    char path[64], children[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server.pid, (int)server.pid);
    for (;;) {
        (void)read_whole(path, children, sizeof children);
        char *rest = children, *word;
        while ((word = strsep(&rest, " ")))
            if (*word && is_member((int)strtol(word, NULL, 10), role, &member))
                return member;
        pause_briefly(until_ns, role);
    }
}

enum said { NOTHING, NOT_READY, READY };

/* What a process's ports file says. */
static enum said said_by(const struct member *member)
{
    char text[4096];
    if (read_whole(member->ports, text, sizeof text) == 0)
        return NOTHING;
    return strstr(text, "\"ready\": true") ? READY : NOT_READY;
}

static void wait_until_said(const struct member *member, enum said least)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (said_by(member) < least)
        pause_briefly(until_ns, member->ports);
}

static void halt(const struct member *member)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    char path[64], text[512];
    cr_assert_eq(kill(member->pid, SIGSTOP), 0);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)member->pid);
    while (read_whole(path, text, sizeof text) == 0 || !strstr(text, ") T "))
        pause_briefly(until_ns, "the halt");
}

static void go_on(const struct member *member)
{
    cr_assert_eq(kill(member->pid, SIGCONT), 0);
}

/* Starts serve so that its context worker stands still while it loads. */
static struct member start_with_late_context(void)
{
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        start_serve();
        struct member context = wait_member("ctx-worker");
        wait_until_said(&context, NOT_READY);
        halt(&context);
        if (said_by(&context) == NOT_READY)
            return context;
        go_on(&context); /* it was too fast */
        stop_serve();
    }
    cr_assert_fail("the context worker is always ready before it can be stopped");
    return (struct member){0};
}

static const char *wait_line(void)
{
    static char line[4096];
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    ssize_t n = 0;
    while (n <= 0 || line[n - 1] != '\n') {
        pause_briefly(until_ns, "the line");
        n = pread(server.out_fd, line, sizeof line - 1, 0);
    }
    line[n] = '\0';
    return line;
}

static const char *grpc_address(void)
{
    static char address[32];
    char text[4096];
    (void)read_whole(in_folder("ports"), text, sizeof text);
    const char *at = strstr(text, "\"grpc\": \"");
    cr_assert(at && sscanf(at + 9, "%31[^\"]", address) == 1, "%s", text);
    return address;
}

Test(serve_ready, the_first_prompt_crosses_however_late_the_context_worker_was)
{
    struct member context = start_with_late_context();
    struct member router = wait_member("router");
    wait_until_said(&router, READY); /* it can place on the generation worker */
    go_on(&context);
    const char *line = wait_line();
    cr_assert_null(strstr(line, "without"), "%s", line);
    RUN("generate", "--server", grpc_address(), "--verbose", "--max-tokens", "4", PROMPT);
    EXPECT_OK();
    EXPECT_IN(last_command.err, " bytes over am-tcp, ");
    stop_serve();
}

Test(serve_ready, a_worker_that_the_router_has_not_seen_is_named)
{
    struct member context = start_with_late_context();
    struct member router = wait_member("router");
    halt(&router);
    go_on(&context);
    wait_until_said(&context, READY);
    halt(&context);
    go_on(&router);
    const char *line = wait_line();
    cr_assert(strstr(line, ", without ctx-worker 127.0.0.1:"), "%s", line);
    go_on(&context);
    stop_serve();
}
