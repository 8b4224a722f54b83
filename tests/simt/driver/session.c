/*
 * session - a small program on cuda:0, over the double or a GPU: what the product does with a device, and what it must not.
 *
 *     session SCENARIO     SESSION_DEVICE: another than cuda:0. SESSION_WAIT_MS: how long a wait is.
 *
 * Ends with 0; with 2 when the device is lost, behind a sentence; with 3 when it cannot be opened or loaded, behind one; with
 * 1 where something is other than it must be.
 */
#include "tests/simt/driver/session.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "device/device_ops.h"
#include "kernels/cuda/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(struct device *device);
} SCENARIOS[] = {
#define SCENARIO(name) {#name, session_##name},
    SESSION_SCENARIOS(SCENARIO)
#undef SCENARIO
};

void session_must(bool is_true, const char *what, int line)
{
    if (is_true)
        return;
    fprintf(stderr, "session: line %d: not so: %s\n", line, what);
    exit(1);
}

void session_check(enum status status, int line)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "session: line %d: %s\n", line, status_text(status));
    exit(status == STATUS_DEVICE_LOST ? 2 : 1);
}

struct device *session_open(void)
{
    struct device *device;
    struct error error = {""};
    const char *name = getenv("SESSION_DEVICE"), *wait_ms = getenv("SESSION_WAIT_MS");
    if (device_open(name ? name : "cuda:0", &device, &error) == STATUS_OK) {
        if (wait_ms)
            device->wait_limit_ns = strtoull(wait_ms, NULL, 10) * NS_PER_MS;
        if (device_reads_host(device))
            exit(0); /* it is the host: nothing to load */
        if (device_load(device, &cuda_image, &error) == STATUS_OK) {
            device_bind(device);
            return device;
        }
        device_close(device);
    }
    fprintf(stderr, "session: %s\n", error.text);
    exit(3);
}

int main(int argc, char **argv)
{
    log_init("session", LOG_INFO, LOG_FORMAT_HUMAN);
    for (size_t i = 0; argc == 2 && i < sizeof SCENARIOS / sizeof *SCENARIOS; i++)
        if (strcmp(argv[1], SCENARIOS[i].name) == 0) {
            struct device *device = session_open();
            SCENARIOS[i].run(device);
            device_bind(NULL);
            device_close(device);
            return 0;
        }
    fprintf(stderr, "usage: session SCENARIO\n");
    return 1;
}
