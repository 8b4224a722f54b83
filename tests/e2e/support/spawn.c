#include "spawn.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t spawn_bound(char *const argv[], int input, int output, int errors)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    cr_assert_geq(pid, 0, "cannot fork");
    if (pid > 0)
        return pid;
    /* The parent may have ended before the request was made. */
    const bool is_bound = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
    if (is_bound && dup2(input, 0) == 0 && dup2(output, 1) == 1 && dup2(errors, 2) == 2)
        execv(argv[0], argv);
    _exit(127);
}
