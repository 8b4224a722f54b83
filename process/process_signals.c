#include "process/process_signals.h"

#include "process/last_words.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

static void fill_stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

void process_signals_init(void)
{
    last_words_init();
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    fill_stop_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int process_wait_signal(uint64_t timeout_ms)
{
    sigset_t set;
    fill_stop_signals(&set);
    struct timespec time = {.tv_sec = (time_t)(timeout_ms / 1000),
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    int signal_number = sigtimedwait(&set, NULL, &time);
    assert(signal_number <= 0 || sigismember(&set, signal_number) == 1);
    return signal_number > 0 ? signal_number : 0;
}

enum process_wake process_wait(uint64_t timeout_ms)
{
    return process_wait_signal(timeout_ms) ? PROCESS_STOP : PROCESS_TIME;
}

bool process_is_told_to_stop(void)
{
    sigset_t set;
    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}
