#include "cli/client/call_guard.h"

#include "base/clock.h"
#include "base/wake.h"
#include "cli/interrupt.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define LOOK_MS     100 /* between two looks at the limit */

static struct {
    struct call_guard_options options;
    pthread_t thread;
    bool is_running;
    int over, heard; /* wakes: over ends the thread, heard is for main */
    int signals;     /* a signalfd; -1: none */
    atomic_uint_fast64_t until_ns;
    atomic_bool is_in_call;
    atomic_int first;
    char gave_up[256]; /* made in advance: a signal handler must not format */
} guard;

/* -1: no signals are handled. */
static int open_signals(bool takes_signals)
{
    sigset_t set;
    if (!takes_signals)
        return -1;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int read_signal(void)
{
    assert(guard.signals >= 0);
    struct signalfd_siginfo info = {0};
    return read(guard.signals, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : SIGTERM;
}

/* Ends the process, whatever other threads do. */
static _Noreturn void end_process(int signal_number)
{
    if (guard.options.end)
        guard.options.end(guard.options.arg, signal_number);
    _exit(signal_number ? interrupt_status(signal_number) : EXIT_FAILURE);
}

static void on_signal(int signal_number)
{
    int none = 0;
    if (atomic_load(&guard.is_in_call) &&
        atomic_compare_exchange_strong(&guard.first, &none, signal_number))
        wake_send(guard.heard);
    else
        end_process(signal_number);
}

static void on_limit(void)
{
    dprintf(STDERR_FILENO,
            "%s: gRPC neither answers nor ends: is there a limit on memory, threads or descriptors "
            "(ulimit -v, -u, -n)?\n",
            guard.options.command);
    end_process(atomic_load(&guard.first));
}

static void on_abort(int signal_number)
{
    (void)signal_number;
    ssize_t written = write(STDERR_FILENO, guard.gave_up, strlen(guard.gave_up));
    (void)written; /* a failure cannot be reported */
    _exit(EXIT_FAILURE);
}

/* gRPC's C++ aborts where it gets no memory. Without a limit an abort stays what it is. */
static void watch_aborts(bool is_watching)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    snprintf(guard.gave_up, sizeof guard.gave_up,
             "%s: gRPC gave up for want of memory: there is a limit on it (ulimit -v)\n",
             guard.options.command);
    signal(SIGABRT, is_watching ? on_abort : SIG_DFL);
}

static void *watch(void *arg)
{
    struct pollfd fds[] = {{.fd = guard.over, .events = POLLIN},
                           {.fd = guard.signals, .events = POLLIN}};
    (void)arg;
    for (;;) {
        (void)poll(fds, 2, LOOK_MS);
        if (fds[0].revents)
            return NULL;
        if (fds[1].revents)
            on_signal(read_signal());
        if (clock_now_ns() > atomic_load(&guard.until_ns))
            on_limit();
    }
}

static int start_thread(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&guard.thread, &attributes, watch, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

static void close_all(void)
{
    const int descriptors[] = {guard.over, guard.heard, guard.signals};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

enum status call_guard_begin(const struct call_guard_options *options, struct error *error)
{
    assert(!guard.is_running);
    guard.options = *options;
    guard.over = wake_open();
    guard.heard = wake_open();
    guard.signals = open_signals(options->takes_signals);
    atomic_store(&guard.until_ns, UINT64_MAX);
    atomic_store(&guard.is_in_call, false);
    atomic_store(&guard.first, 0);
    bool has_all = guard.over >= 0 && guard.heard >= 0 &&
                   (guard.signals >= 0 || !options->takes_signals);
    int failed = has_all ? start_thread() : 0;
    if (has_all && failed == 0) {
        guard.is_running = true;
        watch_aborts(true);
        return STATUS_OK;
    }
    close_all();
    if (!has_all)
        return error_set(error, STATUS_IO_FAILED, "no descriptors are left (ulimit -n)");
    return error_set(error, STATUS_NO_THREAD,
                     "cannot start a thread: %s; is there a limit on memory or threads (ulimit -v, "
                     "-u)?",
                     strerror(failed));
}

void call_guard_limit(uint64_t limit_ms)
{
    atomic_store(&guard.until_ns, clock_now_ns() + (limit_ms + CALL_GUARD_GRACE_MS) * NS_PER_MS);
}

int call_guard_enter_call(void)
{
    assert(guard.is_running);
    assert(!atomic_load(&guard.is_in_call));
    atomic_store(&guard.is_in_call, true);
    return guard.heard;
}

void call_guard_leave_call(void)
{
    assert(atomic_load(&guard.is_in_call));
    atomic_store(&guard.is_in_call, false);
}

int call_guard_end(void)
{
    assert(!atomic_load(&guard.is_in_call));
    if (!guard.is_running)
        return 0;
    watch_aborts(false);
    wake_send(guard.over);
    pthread_join(guard.thread, NULL);
    close_all();
    guard.is_running = false;
    return atomic_load(&guard.first);
}
