/*
 * model - a decoder-only language model read from a Hugging Face folder.
 *
 * One decoder serves every family; model_config.h describes it as data. Weights stay in the mapped safetensors
 * files. They are copied only if they are converted (WEIGHTS_INT8), and to a device that does not read the host's
 * memory. For such a device no file stays mapped after loading.
 *
 * Thread: load and destroy on one; afterwards immutable, any.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"
#include "model/config/model_config.h"
#include "model/weights/weight_format.h"

#include <stdbool.h>

struct model;
struct device;
struct thread_pool;
struct kernels;
struct attention_backend;
struct weights;
struct kv_scales;

struct model_options {
    enum weight_format weights;
    uint32_t
        context_tokens; /* most positions that will be used: they choose LongRoPE's factors; 0: all of the model */
    const char *attention_window; /* attention_windows.h; NULL and "": as the files say */
    bool force_window;
    /* The kernels that compute with it: names as in kernel_choice.h. */
    const char *cpu_kernels, *attention_kernels;
    /* Only checks configuration, names and shapes: reads no weights, computes no digest. */
    bool without_weights;
    bool is_quiet;               /* no warning: another load of this folder gives it */
    struct thread_pool *threads; /* for reading and quantizing; NULL: only the caller's thread */
    /* The device that computes with it; model_destroy frees its memory there. The caller must own its copy queue
     * during model_load. NULL: any that reads the host's memory. */
    struct device *device;
    /* Called while weights are read, quantized and copied; may be NULL. */
    void (*on_progress)(void *arg, uint64_t bytes_done, uint64_t bytes_all);
    void *arg;
};

/* error names the file, field or tensor, and what was expected.
 * NOT_FOUND, IO_FAILED, CORRUPT (malformed), UNSUPPORTED (well-formed, but kvferry cannot run it),
 * INVALID_ARGUMENT (the sizes of the matrices do not allow the weight format), NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status model_load(const char *folder, const struct model_options *options,
                                  struct error *error, struct model **model_out);
void model_destroy(struct model *model); /* NULL is fine */

/* What model_options chose; never NULL. */
const struct kernels *model_kernels(const struct model *model);
const struct kernels *
model_host_kernels(const struct model *model); /* for data in the host's memory */
const struct attention_backend *model_attention(const struct model *model);
struct device *model_device(const struct model *model);                 /* that of model_options */
const struct model_config *model_get_config(const struct model *model); /* borrowed */
const struct weights *model_weights(const struct model *model);         /* borrowed; weights.h */
const struct kv_scales *
model_kv_scales(const struct model *model); /* borrowed: those of the files */
/* What is wrong with those of the files, which are then left out; "": nothing. */
const char *model_kv_scales_error(const struct model *model);
uint64_t model_parameters(const struct model *model);
uint64_t model_weight_bytes(const struct model *model);
/* For a model without weights: the bytes that they will take on a device with its own memory. INVALID_ARGUMENT: the
 * matrices cannot be rounded to this format. */
MUST_CHECK enum status model_planned_bytes(const struct model *model, enum weight_format weights,
                                           uint64_t *bytes_out, struct error *error);
/* The part of weight_bytes that is used in the mapped files, neither converted nor copied to a device. */
uint64_t model_mapped_bytes(const struct model *model);
/* The type of the first layer's K projection in the files, before quantization: F32, BF16 or F16. Norms, biases or the
 * head may have another type. */
enum dtype model_weight_dtype(const struct model *model);
/* Equal digests mean: equal config (as far as it changes results), equal names, types, shapes and bytes of
 * all used tensors (weight_digest.h), in whatever files, and equal weight format. So one model can use the K
 * and V of the other. */
void model_digest(const struct model *model, uint64_t digest_out[2]);
