#include "process/last_words.h"

#include "base/log/log.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_MS 500

static volatile sig_atomic_t starting;

/* The text of a failed start, made in advance: a signal handler must not format. */
static const char START_SENTENCE[] = "kvferry: cannot start: a library gave up or stands still; is "
                                     "there a limit on memory, threads or descriptors "
                                     "(ulimit -v, -u, -n)?\n";

/* Does nothing if the write could block. */
static void say(const char *text)
{
    struct pollfd error_output = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&error_output, 1, 0) != 1)
        return;
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* a failure cannot be reported */
}

static void on_crash(int signal_number)
{
    (void)log_flush(FLUSH_MS);
    if (starting)
        say(START_SENTENCE);
    raise(signal_number); /* SA_RESETHAND has removed the handler */
}

static void on_limit(int signal_number)
{
    (void)signal_number;
    (void)log_flush(FLUSH_MS); /* NOLINT(bugprone-signal-handler): its header says it may */
    if (starting)
        say(START_SENTENCE);
    _exit(EXIT_FAILURE);
}

void last_words_init(void)
{
    static const int CRASHES[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof CRASHES / sizeof *CRASHES; i++)
        sigaction(CRASHES[i], &action, NULL);
}

void last_words_starting(bool is_starting)
{
    starting = is_starting;
}

void last_words_limit(unsigned seconds)
{
    signal(SIGALRM, on_limit);
    alarm(seconds);
}
