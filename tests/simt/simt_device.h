/*
 * simt_device - a device whose kernels the harness runs in this process, at once: for tests of the back end and of
 * what is built on it. The driver, its queues and its errors are the double's (tests/simt/driver).
 *
 * Memory is zero, or poison if that is asked for, and known to the harness: a kernel that touches anything else, or is given
 * an address elsewhere, ends the process with a sentence. The host could read it, but device_reads_host says no.
 *
 * Thread: any, one at a time.
 */
#pragma once

#include "device/device.h"

struct simt_options {
    uint32_t architecture; /* 0: 90 */
    uint32_t n_processors; /* 0: 4 */
    bool copies_late;
    uint32_t seed;
    uint32_t resident, cluster; /* harness/simt.h */
    bool count_banks, only_bounds;
    bool poisons; /* memory begins as 0xff: NaN in every format */
    bool wants_static_steps;
    bool never_captures;
};

struct device *simt_device_open(const struct simt_options *options);
/* Of kernels, shapes and parameters of what was launched since the last call, not replayed. */
uint32_t simt_device_launches(struct device *device);
/* So far. */
uint64_t simt_device_replays(const struct device *device);
/* Memory of the test that is the device's, too, until close. */
void simt_device_adopt(struct device *device, const void *base, size_t bytes);
