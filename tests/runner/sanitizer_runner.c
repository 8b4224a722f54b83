/*
 * sanitizer_runner - runs Criterion tests where Criterion itself does not do.
 *
 * Its process library wants memory at addresses that ThreadSanitizer keeps for itself, and aborts
 * (Snaipe/Criterion issue 274); and a child in which LeakSanitizer found a leak counts as passed.
 * Programs built with a sanitizer link this file instead of the library: the same macros, one forked
 * child a test or parameter, tests one after the other, and the child's exit code counts.
 *
 * Understands --filter SUITE/TEST (a shell pattern) and --times (wall and processor seconds of each
 * test); other options are ignored. Knows .init, .fini, .signal, .exit_code, .timeout, .disabled, of
 * tests and of suites, and ONE_THREAD (one_thread.h). No theories, no redirection.
 */

#include "criterion_calls.h"
#include "one_thread.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Instrumented code is several times slower. */
#define TIMEOUT_FACTOR 10

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

static const struct criterion_test *current; /* in a child: the one it runs */
static void *current_parameter;

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
    static const struct criterion_test_extra_data none;
    for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
        if (strcmp((*suite)->name, test->category) == 0)
            return (*suite)->data;
    return &none;
}

static bool says_one_thread(const struct criterion_test *test)
{
    const char *of_test = test->data->description;
    const char *of_suite = suite_of(test)->description;
    return (of_test && strcmp(of_test, ONE_THREAD) == 0) ||
           (of_suite && strcmp(of_suite, ONE_THREAD) == 0);
}

/* ---- in the child ---- */

void criterion_internal_test_setup(void)
{
    if (suite_of(current)->init)
        suite_of(current)->init();
    if (current->data->init)
        current->data->init();
}

void criterion_internal_test_main(void (*body)(void))
{
    if (current->data->kind_ == CR_TEST_PARAMETERIZED)
        ((void (*)(void *))body)(current_parameter);
    else
        body();
}

void criterion_internal_test_teardown(void)
{
    if (current->data->fini)
        current->data->fini();
    if (suite_of(current)->fini)
        suite_of(current)->fini();
}

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* What the process has used before this thread is asked is at most what this thread has. */
static bool had_other_threads(void)
{
    const double process = seconds(CLOCK_PROCESS_CPUTIME_ID);
    return process > seconds(CLOCK_THREAD_CPUTIME_ID);
}

static bool tells_times;

static int run_in_child(const struct criterion_test *test)
{
    test->test();
    const bool had_others = had_other_threads();
    if (tells_times)
        printf("%s", had_others ? "threads:   " : "one thread:");
    if (says_one_thread(test) && had_others) {
        fprintf(stderr, "%s::%s says that it runs in one thread and had others\n", test->category,
                test->name);
        return EXIT_FAILURE;
    }
    return criterion_calls_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- one child a test ---- */

static bool is_as_expected(const struct criterion_test *test, int state)
{
    int expected_signal = test->data->signal ? test->data->signal : suite_of(test)->signal;
    if (WIFSIGNALED(state))
        return WTERMSIG(state) == expected_signal;
    return WIFEXITED(state) && expected_signal == 0 && WEXITSTATUS(state) == test->data->exit_code;
}

static bool run(const struct criterion_test *test, void *parameter)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        double timeout = test->data->timeout > 0 ? test->data->timeout : suite_of(test)->timeout;
        alarm((unsigned)(timeout * TIMEOUT_FACTOR)); /* 0: none */
        current = test;
        current_parameter = parameter;
        exit(run_in_child(test));
    }

    const double start = seconds(CLOCK_MONOTONIC);
    struct rusage used;
    int state = 0;
    while (wait4(child, &state, 0, &used) < 0)
        ;
    if (tells_times)
        printf("%7.2f s, %7.2f s of processors: %s/%s\n", seconds(CLOCK_MONOTONIC) - start,
               (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6,
               test->category, test->name);
    if (is_as_expected(test, state))
        return true;
    fprintf(stderr, "FAIL %s::%s: %s %d\n", test->category, test->name,
            WIFSIGNALED(state) ? "signal" : "exit code",
            WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
    return false;
}

static bool run_all_parameters(const struct criterion_test *test)
{
    struct criterion_test_params parameters = test->data->param_();
    bool passed = parameters.length > 0;
    for (size_t i = 0; i < parameters.length; i++)
        passed &= run(test, (char *)parameters.params + i * parameters.size);
    if (parameters.cleanup)
        parameters.cleanup(&parameters);
    return passed;
}

static bool is_wanted(const struct criterion_test *test, const char *pattern)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s", test->category, test->name);
#ifdef KVFERRY_SANITIZED_THREAD
    if (says_one_thread(test))
        return false;
#endif
    return !test->data->disabled && !suite_of(test)->disabled && fnmatch(pattern, name, 0) == 0;
}

static bool is_given(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return true;
    return false;
}

static const char *pattern_of(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--filter=", 9) == 0)
            return argv[i] + 9;
        if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            return argv[i + 1];
    }
    return "*";
}

/* UCX patches mmap and its like in libc, which ThreadSanitizer has taken for itself: children die of
 * SIGSEGV. It reads the option when it is loaded, before main. */
static void leave_mmap_alone(char **argv)
{
#ifdef KVFERRY_SANITIZED_THREAD
    if (setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1) == 0)
        execv("/proc/self/exe", argv);
    perror("sanitizer_runner: execv");
    exit(EXIT_FAILURE);
#else
    (void)argv;
#endif
}

int main(int argc, char **argv)
{
    const char *mode = getenv("UCX_MEM_MMAP_HOOK_MODE");
    if (!mode || strcmp(mode, "none") != 0)
        leave_mmap_alone(argv);
    const char *pattern = pattern_of(argc, argv);
    tells_times = is_given(argc, argv, "--times");
    unsigned n_tested = 0, n_failed = 0;
    for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
        if (!is_wanted(*test, pattern))
            continue;
        n_tested++;
        n_failed += !((*test)->data->kind_ == CR_TEST_PARAMETERIZED ? run_all_parameters(*test)
                                                                    : run(*test, NULL));
    }
    printf("[====] Synthesis: Tested: %u | Failing: %u\n", n_tested, n_failed);
    return n_failed > 0 || n_tested == 0;
}
