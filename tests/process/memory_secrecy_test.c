/* memory_secrecy: a process that is told so leaves no core file and is closed to debuggers. */
#include "process/memory_secrecy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_filter_empty(void)
{
    char text[32] = "";
    FILE *file = fopen("/proc/self/coredump_filter", "r");
    bool is_read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    return is_read && strtoul(text, NULL, 16) == 0;
}

static void expect_secrecy(bool is_shared)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit;
        memory_secrecy_begin(is_shared);
        bool is_closed = prctl(PR_GET_DUMPABLE) == is_shared && is_filter_empty() &&
                         getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0 &&
                         limit.rlim_max == 0;
        if (!is_closed)
            _exit(1);
        abort();
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !WCOREDUMP(status), "status %x",
              status);
}

Test(memory_secrecy, no_core_file_and_no_debugger)
{
    expect_secrecy(false);
}

Test(memory_secrecy, who_shares_memory_stays_open_to_its_user_and_leaves_no_core_file)
{
    expect_secrecy(true);
}
