#include "tests/e2e/fault_device_open.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct device *opened; /* of this process, from device_open to its end */

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    uint32_t value = (uint32_t)info->si_value.sival_int;
    fault_device_arm(opened, (enum fault_call)(value % FAULT_CALLS), value / FAULT_CALLS);
}

static void arm_from_environment(struct device *device)
{
    const char *text = getenv(FAULT_ENVIRONMENT);
    unsigned call, n;
    if (!text)
        return;
    int n_read = sscanf(text, "%u %u", &call, &n);
    assert(n_read == 2 && call < FAULT_CALLS);
    (void)n_read;
    fault_device_arm(device, (enum fault_call)call, n);
}

enum status device_open(const char *name, struct device **device_out, struct error *error)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    (void)name, (void)error;
    opened = fault_device_open(&(struct fault_options){
        .seed = (uint64_t)getpid(), .steps_max = 8, .computes_at_once = true});
    sigemptyset(&action.sa_mask);
    int code = sigaction(SIGRTMIN, &action, NULL);
    assert(code == 0);
    (void)code;
    arm_from_environment(opened);
    *device_out = opened;
    return STATUS_OK;
}
