#include "text/template_filter.h"

#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>

/* Of C's library, Rust's and the sanitizers'. */
static const char *const ALLOWED[] = {
    /* the socket, which is there already */
    "read", "write", "recvfrom", "sendmsg", "poll", "ppoll", "close",
    /* memory */
    "brk", "munmap", "mremap", "madvise", "futex",
    /* time */
    "clock_gettime", "gettimeofday", "time", "setitimer", "restart_syscall",
    /* how it ends, and what a mistake of it does */
    "exit", "exit_group", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill",
    "getpid", "gettid",
    /* what it asks of the system */
    "getrandom", "sched_yield", "sched_getaffinity"};

static int allow(scmp_filter_ctx filter, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    return number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

/* As long as it does not become code. */
static int allow_data(scmp_filter_ctx filter, int number)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

bool template_filter_begin(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int result = filter ? 0 : -1;
    for (size_t i = 0; result >= 0 && i < sizeof ALLOWED / sizeof *ALLOWED; i++)
        result = allow(filter, ALLOWED[i]);
    if (result >= 0)
        result = allow_data(filter, SCMP_SYS(mmap));
    if (result >= 0)
        result = allow_data(filter, SCMP_SYS(mprotect));
    if (result >= 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return result >= 0;
}
