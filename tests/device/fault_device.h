/*
 * fault_device - a device whose queues run what they are given later, in any legal order, by a seed.
 *
 * Nothing that is enqueued has happened when the call returns. Each poll lets a few operations run: the head of a random
 * queue, if what it waits for is done. A view is memory of its own, and rubbish until its read has run; what is written
 * reaches its target when the write has run, and its view is rubbish from then on. So a wait that is missing shows as
 * rubbish in some seed.
 *
 * Memory of whole DEVICE_EXPORT_BYTES can be exported, to this process, too; what is imported is to be read only, and closed when
 * no operation that reads it is left.
 *
 * Thread: any (one lock), as a driver.
 */
#pragma once

#include "device/device.h"

/* Calls, as far as they can be told apart from outside. */
enum fault_call { FAULT_ANY, FAULT_COMPUTED, FAULT_READ, FAULT_WRITE, FAULT_CALLS };
/* FAULT_COMPUTED: a record on the compute queue, behind a step's work; READ, WRITE: of any queue. */

struct fault_options {
    uint64_t seed;
    uint32_t steps_max;     /* operations that a poll lets run, 0 .. steps_max; 0: it hangs */
    uint64_t fails_at;      /* the nth call of all but memory's fails, from 1; 0: none */
    uint64_t wait_limit_ns; /* 0: as any device */
    bool
        computes_at_once; /* the compute queue, for kernels that nobody enqueues: a forward pass of the host's */
    bool wants_static_steps;
    /* Views at a time, then QUEUE_FULL; 0: as many as there is memory for. As many again of the compute queue's reads. */
    uint32_t views_max;
};

struct device *fault_device_open(const struct fault_options *options);
/* The device is lost at the next call. Any thread. */
void fault_device_lose(struct device *device);
/* Nothing runs any more from now on, and a wait ends after wait_limit_ns; but who computes at once finds what was
 * written in front of it. By who waits. */
void fault_device_hang(struct device *device, uint64_t wait_limit_ns);
/* The nth call from now on fails, from 1. */
void fault_device_fail_at(struct device *device, uint64_t n);
/* The nth such call from now on fails, from 1. Safe in a signal's handler. */
void fault_device_arm(struct device *device, enum fault_call call, uint32_t n);
/* A kernel: run is called when the queue comes to it. */
void fault_device_launch(struct device *device, enum device_queue queue, void (*run)(void *arg),
                         void *arg);
/* Runs all that can run; false: something waits for ever. */
bool fault_device_drain(struct device *device);
/* Views that were handed out and not taken back. */
uint32_t fault_device_n_views(const struct device *device);
/* Memory of others that is open. */
uint32_t fault_device_n_imports(const struct device *device);
/* Calls so far, to place fails_at. */
uint64_t fault_device_n_calls(const struct device *device);
