/*
 * model - a decoder-only language model read from a Hugging Face folder.
 *
 * One decoder described by data serves every family: see model_config.h. Weights stay where
 * the safetensors file is mapped; they are copied only when converted (WEIGHTS_INT8), and to a device that does not
 * read the host's memory. Then, once loaded, no file is mapped any more.
 *
 * Thread: load and destroy on one; afterwards immutable, any.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"
#include "model/model_config.h"

#include <stdbool.h>

struct model;
struct device;
struct thread_pool;
struct kernels;
struct attention_backend;

/* What matrices are computed from: what the file holds, or INT8 made of it when it is loaded, with a
 * scale a row or a group of 32 of it (quantized_weights.h says which). */
enum weight_format { WEIGHTS_AUTO, WEIGHTS_INT8, WEIGHTS_INT8_GROUP32 };

/* The row that chooses one, for a process's table (base/config/config.h). */
#define WEIGHTS_CONFIG_ROW(X)                                                                      \
    X(weights, WORD(enum weight_format, "auto|int8|int8-group32"), "auto", "",                     \
      "auto: as stored in the file; else matrices are rounded to 8 bits when loaded, with one "    \
      "scale per row or per 32 weights")

struct model_options {
    enum weight_format weights;
    /* Of what computes with it: names as of kernel_choice.h. */
    const char *cpu_kernels, *attention_kernels;
    /* Configuration, names and shapes are judged; no weight is read, there is no digest. */
    bool without_weights;
    struct thread_pool *threads; /* that read and quantise; NULL: the caller does */
    /* That computes with it: its memory is freed by model_destroy. The caller has its copy queue until model_load is
     * over. NULL: whichever reads the host's memory. */
    struct device *device;
    /* Called while weights are read, quantised and copied; may be NULL. */
    void (*on_progress)(void *arg, uint64_t bytes_done, uint64_t bytes_all);
    void *arg;
};

/* error says which file, field or tensor, and what was expected.
 * NOT_FOUND, IO_FAILED, CORRUPT (malformed), UNSUPPORTED (well-formed, but not ours to run),
 * INVALID_ARGUMENT (weights in a format that the matrices' sizes do not allow), NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status model_load(const char *folder, const struct model_options *options,
                                  struct error *error, struct model **model_out);
void model_destroy(struct model *model); /* NULL is fine */

/* What model_options chose; never NULL. */
const struct kernels *model_kernels(const struct model *model);
const struct kernels *
model_host_kernels(const struct model *model); /* for what is in the host's memory */
const struct attention_backend *model_attention(const struct model *model);
struct device *model_device(const struct model *model);                 /* model_options' */
const struct model_config *model_get_config(const struct model *model); /* borrowed */
uint64_t model_parameters(const struct model *model);
uint64_t model_weight_bytes(const struct model *model);
/* Of one without weights: what they will take on a device with memory of its own. INVALID_ARGUMENT: they cannot be rounded so. */
MUST_CHECK enum status model_planned_bytes(const struct model *model, enum weight_format weights,
                                           uint64_t *bytes_out, struct error *error);
/* Of weight_bytes, what is used where the files are mapped: neither converted nor copied to a device. */
uint64_t model_mapped_bytes(const struct model *model);
/* Of the first layer's K projection in the folder, F32, BF16 or F16, whatever it was quantised to:
 * norms, biases or the head may have another. */
enum dtype model_weight_dtype(const struct model *model);
/* Equal digests: equal config (as far as it changes results), equal names, types, shapes and bytes of
 * all tensors that are used (weight_digest.h), wherever they lie, and equal weight format: K and V of
 * one are K and V of the other. */
void model_digest(const struct model *model, uint64_t digest_out[2]);
