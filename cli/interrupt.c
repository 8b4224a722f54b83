#include "cli/interrupt.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

int interrupt_status(int signal_number)
{
    assert(signal_number > 0 && signal_number < 128);
    return 128 + signal_number;
}

static void on_signal(int signal_number)
{
    _exit(interrupt_status(signal_number));
}

static void change_mask(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(how, &set, NULL);
}

void interrupt_ends(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    change_mask(SIG_UNBLOCK);
}

void interrupt_waits(void)
{
    change_mask(SIG_BLOCK);
}
