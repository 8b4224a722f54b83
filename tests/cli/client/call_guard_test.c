/* call_guard: the first signal in a call is for who waits there; any other ends the process, whatever main does. */
#include "cli/client/call_guard.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static void begin(void)
{
    static const struct call_guard_options OPTIONS = {.command = "kvferry test",
                                                      .takes_signals = true};
    struct error error = {""};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    cr_assert_eq(call_guard_begin(&OPTIONS, &error), STATUS_OK, "%s", error.text);
}

static void send_to_all(int signal_number)
{
    cr_assert_eq(kill(getpid(), signal_number), 0);
}

static void wait_heard(int heard)
{
    struct pollfd fd = {.fd = heard, .events = POLLIN};
    cr_assert_eq(poll(&fd, 1, 60000), 1, "nobody hears it");
}

Test(call_guard, nothing_is_heard_where_nothing_comes, .timeout = 120)
{
    begin();
    (void)call_guard_enter_call();
    call_guard_limit(60000);
    call_guard_leave_call();
    cr_assert_eq(call_guard_end(), 0);
    cr_assert_eq(call_guard_end(), 0, "and again");
}

Test(call_guard, a_first_signal_is_told_at_the_end, .timeout = 120)
{
    begin();
    int heard = call_guard_enter_call();
    send_to_all(SIGTERM);
    wait_heard(heard);
    call_guard_leave_call();
    cr_assert_eq(call_guard_end(), SIGTERM);
}

Test(call_guard, a_second_signal_ends_the_process, .exit_code = 130, .timeout = 120)
{
    begin();
    int heard = call_guard_enter_call();
    send_to_all(SIGTERM);
    wait_heard(heard);
    send_to_all(SIGINT);
    for (;;)
        pause();
}

Test(call_guard, outside_of_a_call_the_first_does, .exit_code = 143, .timeout = 120)
{
    begin();
    send_to_all(SIGTERM);
    for (;;)
        pause();
}
