#include "cli/output.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failure; /* errno of the first failed write; 0: none */

void output_begin(void)
{
    static char buffer[64 << 10];
    if (!isatty(STDOUT_FILENO))
        (void)setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

static bool flush(void)
{
    errno = 0;
    if (fflush(stdout) != 0 && failure == 0)
        failure = errno;
    if (ferror(stdout) && failure == 0)
        failure = EIO;
    return failure == 0;
}

bool output_write(const void *bytes, size_t n)
{
    errno = 0;
    if (fwrite(bytes, 1, n, stdout) != n && failure == 0)
        failure = errno;
    return flush();
}

int output_end(const char *command, int exit_status)
{
    if (flush())
        return exit_status;
    if (failure == EPIPE)
        return interrupt_status(SIGPIPE);
    fprintf(stderr, "%s: cannot write to standard output: %s\n", command, strerror(failure));
    return EXIT_FAILURE;
}
