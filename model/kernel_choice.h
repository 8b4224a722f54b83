/*
 * kernel_choice - chooses the kernels that compute a model on its device, and the type of its activations.
 *
 *     device                          products, attention           activations    attention by name
 *     without kernels of its own      kernels_select                float32        attention_backend_select
 *     with its own kernels (CUDA)     kernels/cuda                  BF16           cuda, cuda_masked, cuda_reference
 *
 * The residual stream is float32 on all of them. Code that reads logits on the host (sampler.h) always uses the kernels
 * of the host.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"

#include <stdbool.h>

struct attention_backend;
struct device;
struct kernels;

struct kernel_choice {
    const struct kernels *products;
    const struct kernels *host; /* the same as products, unless the device has its own kernels */
    const struct attention_backend *attention;
};

/* Whether the device needs its own kernels, because the host's kernels cannot access its memory. NULL: a host. */
bool kernel_choice_is_own(const struct device *device);
/* Loads the device's own kernels, once, at start. Does nothing for a host. UNSUPPORTED, DEVICE_LOST with a sentence. */
MUST_CHECK enum status kernel_choice_load(struct device *device, struct error *error);
/* The name of the kernels of a device that has opened its library of products (cuBLASLt). */
#define KERNEL_CHOICE_FAST "cublaslt"
/* Whether the bits of a row may depend on the other rows of its batch. */
bool kernel_choice_is_fast(const struct kernels *kernels);
/* NULL: a host. */
enum dtype kernel_choice_activations(const struct device *device);

/* is_own: as kernel_choice_is_own. A name that is NULL or empty chooses the best kernels; on a host the environment
 * variables KVFERRY_CPU and KVFERRY_ATTENTION come first. INVALID_ARGUMENT, UNSUPPORTED: as kernels_select and
 * attention_backend_select. With is_own, INVALID_ARGUMENT also for an attention that only a host has. */
MUST_CHECK enum status kernel_choice_make(bool is_own, const char *cpu_kernels,
                                          const char *attention_kernels, struct error *error,
                                          struct kernel_choice *choice_out);
