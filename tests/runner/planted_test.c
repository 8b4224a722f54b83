/* runner: whatever is planted here is reported; tests/runner/CMakeLists.txt expects each to fail. */

#include "one_thread.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

Test(planted, right)
{
    cr_log_info("%d", 1);
    cr_assert_eq(1, 1);
}

Test(planted, right_in_one_thread, .description = ONE_THREAD)
{
    volatile double sum = 0;
    for (int i = 0; i < 10 * 1000 * 1000; i++)
        sum += i;
    cr_assert_gt(sum, 0);
}

Test(planted, assertion)
{
    cr_assert_eq(1, 2);
}

Test(planted, expectation)
{
    cr_expect_eq(1, 2);
}

Test(planted, abort)
{
    abort();
}

Test(planted, signal_that_does_not_come, .signal = SIGABRT)
{
}

ParameterizedTestParameters(planted, parameter)
{
    static int values[] = {1, 2, 3};
    return cr_make_param_array(int, values, 3);
}

ParameterizedTest(int *value, planted, parameter)
{
    cr_expect_neq(*value, 2);
}

static void *volatile sink;

Test(planted, leak)
{
    sink = malloc(123);
    sink = NULL;
}

/* Volatile, or an optimising compiler sees the overflow and refuses it. */
static volatile size_t n_bytes = 8;

Test(planted, overflow)
{
    volatile char *bytes = malloc(n_bytes);
    bytes[n_bytes] = 1;
    free((void *)bytes);
}

static int shared;

static void *increment(void *arg)
{
    shared++;
    return arg;
}

Test(planted, race)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, increment, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void *do_nothing(void *arg)
{
    return arg;
}

Test(planted, second_thread, .description = ONE_THREAD)
{
    pthread_t thread;
    pthread_create(&thread, NULL, do_nothing, NULL);
    pthread_join(thread, NULL);
}
