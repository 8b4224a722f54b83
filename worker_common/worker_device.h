/*
 * worker_device - the device of a worker (row device), and the worker's part of its memory.
 *
 *     cpu       the host
 *     cuda:N    the Nth GPU, which computes and holds weights and KV
 *     auto      the first GPU, if this build has kernels for it; else the host
 *
 * Thread: main.
 */
#pragma once

#include "device/device.h"
#include "worker_common/worker_options.h"

const char *worker_device_name(const struct worker_options *options); /* for device_open */

/* Checks the names only; worker_device_open checks whether the device exists, and resolves auto. INVALID_ARGUMENT,
 * UNSUPPORTED with a sentence: an unknown name, or kernels or a kv_transport that do not work with the device. */
MUST_CHECK enum status worker_device_check(const struct worker_options *options,
                                           struct error *error);
/* Opens the device and loads its kernels. Fails as device_open, device_load, and for auto as
 * worker_device_check. */
MUST_CHECK enum status worker_device_open(const struct worker_options *options,
                                          struct device **device_out, struct error *error);
/* Checks that the device can be opened, after worker_device_check. Fails as worker_device_open. */
MUST_CHECK enum status worker_device_probe(const struct worker_options *options,
                                           struct error *error);
/* The value of products for model_options and kernel_choice_make. NULL device: that of a host. */
const char *worker_device_kernels(const struct device *device,
                                  const struct worker_options *options);
/* The size of the device's own memory; 0: none, as on the host. NULL: 0. */
uint64_t worker_device_memory(const struct device *device);
/* The part of it that this process has or could have now, without a little for the driver: other processes have the
 * rest. 0: not known, or none. NULL: 0. */
uint64_t worker_device_room(struct device *device);
/* Checks that the device has so many bytes free for what. NO_MEMORY, DEVICE_LOST with a sentence. */
MUST_CHECK enum status worker_device_fits(struct device *device, const char *what, uint64_t bytes,
                                          struct error *error);
/* Returns status; for NO_MEMORY on a device with its own memory, appends advice to the sentence. */
MUST_CHECK enum status worker_device_advise(enum status status, const struct device *device,
                                            const char *advice, struct error *error);
/* That advice. */
#define ADVICE_EXACT_MATH   "leave device_math exact"
#define ADVICE_LESS_WEIGHTS "take weights int8, or another device"
#define ADVICE_LESS_KV      "lower kv_memory or kv_blocks"
const char *worker_device_less_work(const struct worker_options *options);
