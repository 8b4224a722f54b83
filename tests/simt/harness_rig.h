/*
 * harness_rig - runs the kernels of harness_kernels.h in a schedule, or in a process of its own until the harness ends it.
 *
 * Thread: one, between begin and end.
 */
#pragma once

#include "device/device.h"
#include "tests/simt/harness_kernels.h"

enum { HARNESS_VALUES = 256, SCHEDULES = 4 };

struct harness_rig {
    struct device *device;
    struct device_memory values, counters;
    struct harness_data data;
};
extern struct harness_rig harness_rig;

void harness_rig_begin(void);
void harness_rig_end(void);

/* In order and shuffled, copies early and late. */
struct simt_schedule harness_schedule(uint32_t i);

struct harness_attempt {
    void (*run)(const struct harness_attempt *attempt);
    const char *kernel;
    uint32_t n_ctas;
    struct simt_schedule schedule;
    void *address; /* of a launch */
    uint32_t threads;
};

/* values begin as 0, 1, 2 ..., counters as zero. */
void harness_rig_run(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule);
/* What a process of its own says until it ends by SIGABRT, as it is to. */
void harness_rig_said_in(const struct harness_attempt *attempt, char *said, size_t bytes);
void harness_rig_said(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule,
                      char *said, size_t bytes);
/* In every schedule of harness_schedule, in clusters of so many CTAs; 0: none. */
void harness_rig_expect(const char *kernel, uint32_t n_ctas, uint32_t cluster,
                        const char *sentence);
/* Under ThreadSanitizer: what it reports of a run, empty: nothing. */
void harness_rig_races(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule,
                       char *said, size_t bytes);
