#include "cli/output.h"

#include "base/utf8.h"
#include "cli/interrupt.h"

#include <assert.h>
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

bool output_write_text(const void *text, size_t n)
{
    const char *at = text, *end = at + n;
    if (!isatty(STDOUT_FILENO))
        return output_write(text, n);
    while (at < end) {
        size_t length;
        uint32_t codepoint = 0;
        bool is_whole = utf8_sequence((const uint8_t *)at, (size_t)(end - at), &length) ==
                        UTF8_WHOLE;
        assert(length > 0 && length <= (size_t)(end - at));
        if (is_whole)
            (void)utf8_read(at, &codepoint);
        bool is_shown = is_whole && (*at == '\n' || *at == '\t' || !utf8_is_control(codepoint));
        (void)fwrite(is_shown ? at : "?", 1, is_shown ? length : 1, stdout);
        at += length;
    }
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
