/* wake: what was sent is readable until it is taken, once; nobody waits, and a program that is started does not inherit it. */
#include "base/wake.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static bool is_readable(int wake)
{
    struct pollfd look = {.fd = wake, .events = POLLIN};
    return poll(&look, 1, 0) == 1;
}

Test(wake, is_taken_once_however_often_it_was_sent)
{
    int wake = wake_open();
    cr_assert_geq(wake, 0);
    cr_assert_not(is_readable(wake));
    cr_assert_not(wake_take(wake));
    wake_send(wake);
    wake_send(wake);
    cr_assert(is_readable(wake));
    cr_assert(wake_take(wake));
    cr_assert_not(is_readable(wake));
    cr_assert_not(wake_take(wake));
    wake_send(wake);
    cr_assert(wake_take(wake), "and again");
    close(wake);
}

Test(wake, a_full_one_makes_nobody_wait)
{
    int wake = wake_open();
    cr_assert_eq(eventfd_write(wake, UINT64_MAX - 1), 0);
    wake_send(wake);
    cr_assert(wake_take(wake));
    close(wake);
}

Test(wake, is_not_inherited)
{
    int wake = wake_open();
    cr_assert(fcntl(wake, F_GETFD) & FD_CLOEXEC);
    close(wake);
}
