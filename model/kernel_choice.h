/*
 * kernel_choice - chooses the kernels that compute a model on its device, and the type of its activations.
 *
 *     device                          products, attention           activations    attention by name
 *     runs no kernels of its own      kernels_select                float32        attention_backend_select
 *     runs its own (CUDA)             kernels/cuda                  BF16           cuda, cuda_masked, cuda_reference
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
    const struct kernels *host; /* the same, unless the device has its own */
    const struct attention_backend *attention;
};

/* Whether the device runs its own loaded kernels, because the host's cannot access its memory. NULL: a host. */
bool kernel_choice_is_own(const struct device *device);
/* Loads the kernels, once, at start. A host needs none. UNSUPPORTED, DEVICE_LOST with a sentence. */
MUST_CHECK enum status kernel_choice_load(struct device *device, struct error *error);
/* Of a device that has opened its library of products: the name of what computes with it, in place of a set of the host's. */
#define KERNEL_CHOICE_FAST "cublaslt"
/* Whether a row's bits may depend on its batch. */
bool kernel_choice_is_fast(const struct kernels *kernels);
/* NULL: a host. */
enum dtype kernel_choice_activations(const struct device *device);

/* is_own: of a device that kernel_choice_is_own. Names NULL or empty: the best; of a host the environment's KVFERRY_CPU and
 * KVFERRY_ATTENTION come first. INVALID_ARGUMENT, UNSUPPORTED as kernels_select and attention_backend_select; where is_own, INVALID_ARGUMENT
 * also for an attention of the host's. */
MUST_CHECK enum status kernel_choice_make(bool is_own, const char *cpu_kernels,
                                          const char *attention_kernels, struct error *error,
                                          struct kernel_choice *choice_out);
