#include "terminal.h"

#include "command.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 40

void terminal_start(struct terminal *terminal, const char *const *words)
{
    char *argv[WORDS_MAX + 2] = {(char *)KVFERRY_BINARY};
    for (uint32_t i = 0; words[i]; i++) {
        cr_assert_lt(i, WORDS_MAX);
        argv[i + 1] = (char *)words[i];
    }
    *terminal = (struct terminal){0};
    const pid_t parent = getpid();
    terminal->pid = forkpty(&terminal->master, NULL, NULL, NULL);
    cr_assert_geq(terminal->pid, 0, "no pseudo-terminal");
    if (terminal->pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
            execv(argv[0], argv);
        _exit(127);
    }
    fcntl(terminal->master, F_SETFD, FD_CLOEXEC);
}

void terminal_type(struct terminal *terminal, const char *keys)
{
    size_t n = strlen(keys);
    cr_assert_eq(write(terminal->master, keys, n), (ssize_t)n);
}

/* False: nothing came for a moment, or nothing will any more. */
static bool read_some(struct terminal *terminal)
{
    struct pollfd wait = {.fd = terminal->master, .events = POLLIN};
    if (terminal->master < 0 || poll(&wait, 1, 10) != 1)
        return false;
    cr_assert_lt(terminal->n, sizeof terminal->text - 1, "more text than a test expects");
    ssize_t n = read(terminal->master, terminal->text + terminal->n,
                     sizeof terminal->text - 1 - terminal->n);
    if (n > 0)
        terminal->n += (size_t)n;
    return n > 0;
}

void terminal_read(struct terminal *terminal)
{
    (void)read_some(terminal);
}

void terminal_wait(struct terminal *terminal, const char *part)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (!strstr(terminal->text, part)) {
        cr_assert_lt(clock_now_ns(), until_ns, "\"%s\" is not shown:\n%s", part, terminal->text);
        (void)read_some(terminal);
    }
}

void terminal_close(struct terminal *terminal)
{
    close(terminal->master);
    terminal->master = -1;
}

int terminal_finish(struct terminal *terminal)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    int status = 0;
    while (waitpid(terminal->pid, &status, WNOHANG) != terminal->pid) {
        cr_assert_lt(clock_now_ns(), until_ns, "the command does not end:\n%s", terminal->text);
        if (!read_some(terminal))
            (void)poll(NULL, 0, 2);
    }
    while (read_some(terminal))
        ;
    if (terminal->master >= 0)
        terminal_close(terminal);
    return status;
}
