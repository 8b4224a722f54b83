/* syscall_filter: threads, files and sockets go on; a program, another process or a debugger ends the process with the
 * number of the call. */
#include "process/syscall_filter.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[512];

/* Exit status of a process that does that under the filter; what it wrote is in said. */
static int status_of(void (*act)(void))
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        syscall_filter_begin();
        act();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = '\0';
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "status %x: %s", status, said);
    return WEXITSTATUS(status);
}

static void *nothing(void *arg)
{
    return arg;
}

static void work(void)
{
    pthread_t thread;
    char byte;
    int pair[2];
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        _exit(3);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || write(pair[0], "x", 1) != 1 ||
        read(pair[1], &byte, 1) != 1)
        _exit(4);
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &byte, 1) != 1)
        _exit(5);
}

static void run_a_program(void)
{
    (void)execl("/bin/true", "true", (char *)NULL);
}

/* Not by fork: TSan's holds locks around the call, which the handler wants. */
static void make_a_process(void)
{
    (void)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void debug(void)
{
    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void become_dumpable(void)
{
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static void *debug_in_a_thread(void *arg)
{
    debug();
    return arg;
}

static void debug_elsewhere(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, debug_in_a_thread, NULL) == 0)
        (void)pthread_join(thread, NULL);
}

Test(syscall_filter, what_a_role_does_goes_on)
{
    cr_assert_eq(status_of(work), 0, "%s", said);
    cr_assert_not_null(strstr(said, "seccomp filter on"), "%s", said);
}

Test(syscall_filter, everything_else_ends_the_process_and_is_named)
{
    static const struct {
        void (*act)(void);
        long number;
    } CASES[] = {
        {run_a_program, SYS_execve},  {make_a_process, SYS_clone},   {debug, SYS_ptrace},
        {become_dumpable, SYS_prctl}, {debug_elsewhere, SYS_ptrace},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char number[32];
        cr_assert_eq(status_of(CASES[i].act), EXIT_FAILURE, "case %zu: %s", i, said);
        snprintf(number, sizeof number, "system call %5ld is none", CASES[i].number);
        cr_assert_not_null(strstr(said, number), "%s: %s", number, said);
    }
}
