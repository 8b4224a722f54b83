/* last_words: a crash writes what the log still has, a failed start says so, and a limit is kept. */

#include "base/log/log.h"
#include "process/last_words.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_LINES 200

static char text[1 << 16];

/* Runs it in a child, reads all that it says into text, and returns its wait status. */
static int run_child(void (*act)(void))
{
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct error error;
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        last_words_init();
        log_init("router", LOG_INFO, LOG_FORMAT_JSON);
        if (log_start(&error) == STATUS_OK)
            act();
        _exit(99);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void log_and_abort(void)
{
    for (int i = 0; i < N_LINES; i++)
        log_info("line %d", i);
    abort();
}

Test(last_words, an_abort_writes_what_the_log_has, .timeout = 60)
{
    int status = run_child(log_and_abort);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "wait status %d", status);
    cr_expect(strstr(text, "\"line 199\""), "%s", text);
    cr_expect_null(strstr(text, "cannot start"));
}

static void log_and_crash_in_a_start(void)
{
    last_words_starting(true);
    log_info("loading");
    raise(SIGSEGV);
}

Test(last_words, a_crash_while_starting_is_a_start_that_failed, .timeout = 60)
{
    int status = run_child(log_and_crash_in_a_start);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "wait status %d", status);
    cr_expect(strstr(text, "\"loading\"") && strstr(text, "cannot start: a library gave up"), "%s",
              text);
}

static void hang_in_a_start(void)
{
    last_words_starting(true);
    last_words_limit(1);
    for (;;)
        pause();
}

Test(last_words, a_start_that_stands_still_is_ended, .timeout = 60)
{
    int status = run_child(hang_in_a_start);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "wait status %d", status);
    cr_expect(strstr(text, "cannot start: a library gave up or stands still"), "%s", text);
}
