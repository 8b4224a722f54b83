#include "process/syscall_filter.h"

#include "base/log/log.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FLUSH_MS 500

/* The system calls of the roles, gRPC's core, UCX, libevent, OpenSSL and glibc while a role serves;
 * tests/e2e/seccomp_test.c runs under the filter. Names that an architecture does not have are skipped. */
static const char *const ALLOWED[] = {
    /* memory */
    "brk",
    "mmap",
    "munmap",
    "mremap",
    "mprotect",
    "madvise",
    "mincore",
    "membarrier",
    "mlock",
    "munlock",
    "memfd_create",
    /* threads and signals */
    "futex",
    "set_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "set_tid_address",
    "getcpu",
    "exit",
    "exit_group",
    "gettid",
    "getpid",
    "getppid",
    "tgkill",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "rt_sigpending",
    "sigaltstack",
    "restart_syscall",
    /* time */
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "alarm",
    "setitimer",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    "times",
    "getrusage",
    /* files: tokens and keys are read again, ports files are written */
    "openat",
    "open",
    "close",
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "lseek",
    "fstat",
    "stat",
    "lstat",
    "newfstatat",
    "fstatat64",
    "statx",
    "statfs",
    "fstatfs",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents64",
    "getcwd",
    "fcntl",
    "flock",
    "dup",
    "dup2",
    "dup3",
    "pipe2",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "fchmod",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "umask",
    "ioctl",
    "eventfd2",
    "signalfd4",
    /* waiting */
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "wait4", /* of the keeper of template renderers, which was started before */
    /* network */
    "socket",
    "socketpair",
    "bind",
    "listen",
    "accept",
    "accept4",
    "connect",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "shutdown",
    /* identity and limits */
    "getrandom",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "uname",
    "sysinfo",
    "prlimit64",
    "getrlimit",
    "arch_prctl",
};

static void on_refused(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)context;
    char text[] = "kvferry: ended by seccomp: system call ##### is none that a role needs\n";
    char *first = strchr(text, '#');
    unsigned n = (unsigned)info->si_syscall;
    for (char *at = first + 4; at >= first; at--, n /= 10)
        *at = n > 0 || at == first + 4 ? (char)('0' + n % 10) : ' ';
    (void)log_flush(FLUSH_MS); /* NOLINT(bugprone-signal-handler): its header says it may */
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written; /* a failure cannot be reported */
    _exit(EXIT_FAILURE);
}

static int allow(scmp_filter_ctx filter, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    return number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

/* A filter cannot see the flags of clone3. If clone3 fails with ENOSYS, glibc uses clone. */
static int allow_threads(scmp_filter_ctx filter)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (result < 0)
        return result;
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

static int allow_names(scmp_filter_ctx filter)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                  SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME, 0));
    if (result < 0)
        return result;
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                            SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME, 0));
}

void syscall_filter_begin(void)
{
    struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    int result = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSYS, &action, NULL);
    for (size_t i = 0; result >= 0 && i < sizeof ALLOWED / sizeof *ALLOWED; i++)
        result = allow(filter, ALLOWED[i]);
    if (result >= 0)
        result = allow_threads(filter);
    if (result >= 0)
        result = allow_names(filter);
    if (result >= 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    if (result < 0)
        log_warn("no seccomp filter: %s", strerror(-result));
    else
        log_info("seccomp filter on");
}
