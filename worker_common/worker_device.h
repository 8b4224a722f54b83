/*
 * worker_device - which device a worker computes on (row device), and what of its memory is the worker's.
 *
 *     cpu       the host
 *     cuda:N    the Nth GPU, with kernels, weights and KV of its own
 *     auto      the first GPU there is, if this build's kernels run on it, else the host
 *
 * Thread: main.
 */
#pragma once

#include "device/device.h"
#include "worker_common/worker_options.h"

const char *worker_device_name(const struct worker_options *options); /* as device_open takes it */

/* As far as names tell; worker_device_open knows whether it is there, and what auto comes to. INVALID_ARGUMENT, UNSUPPORTED with a
 * sentence: no such name, or kernels or a kv_transport that it does not go with. */
MUST_CHECK enum status worker_device_check(const struct worker_options *options,
                                           struct error *error);
/* With its kernels. As device_open, device_load, and for auto as worker_device_check. */
MUST_CHECK enum status worker_device_open(const struct worker_options *options,
                                          struct device **device_out, struct error *error);
/* Whether it could be opened. As worker_device_open; of a device that worker_device_check takes. */
MUST_CHECK enum status worker_device_probe(const struct worker_options *options,
                                           struct error *error);
/* What model_options and kernel_choice_make are told for products. NULL device: that of a host. */
const char *worker_device_kernels(const struct device *device,
                                  const struct worker_options *options);
/* All the memory that the device has of its own; 0: none, as of the host. NULL: 0. */
uint64_t worker_device_memory(const struct device *device);
/* Of it, what this process has or could have now: others have the rest, and a little stays for the driver. 0: not known, or
 * none. NULL: 0. */
uint64_t worker_device_room(struct device *device);
/* NO_MEMORY with a sentence: so many bytes for what, which is more than is free of the device now. DEVICE_LOST with one. */
MUST_CHECK enum status worker_device_fits(struct device *device, const char *what, uint64_t bytes,
                                          struct error *error);
/* status; if it is NO_MEMORY, of a device with memory of its own, what a person can do about it is behind the sentence. */
MUST_CHECK enum status worker_device_advise(enum status status, const struct device *device,
                                            const char *advice, struct error *error);
/* Such advice. */
#define ADVICE_EXACT_MATH   "leave device_math exact"
#define ADVICE_LESS_WEIGHTS "take weights int8, or another device"
#define ADVICE_LESS_KV      "lower kv_memory or kv_blocks"
const char *worker_device_less_work(const struct worker_options *options);
