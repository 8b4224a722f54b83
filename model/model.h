/*
 * model - a decoder-only language model read from a Hugging Face folder.
 *
 * One decoder described by data serves every family: see model_config.h. Weights stay where
 * the safetensors file is mapped; they are copied only when converted.
 *
 * Thread: load and destroy on one; afterwards immutable, any.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"
#include "model/model_config.h"

struct model;

struct model_options {
    /* Called while weights are checked and paged in; may be NULL. */
    void (*on_progress)(void *arg, uint64_t bytes_done, uint64_t bytes_all);
    void *arg;
};

/* error says which file, field or tensor, and what was expected.
 * NOT_FOUND, IO_FAILED, CORRUPT (malformed), UNSUPPORTED (well-formed, but not ours to run),
 * NO_MEMORY. */
MUST_CHECK enum status model_load(const char *folder, const struct model_options *options,
                                  struct error *error, struct model **model_out);
void model_destroy(struct model *model); /* NULL is fine */

const struct model_config *model_get_config(const struct model *model); /* borrowed */
uint64_t model_parameters(const struct model *model);
uint64_t model_weight_bytes(const struct model *model);
/* Of the first layer's K projection: a folder may keep norms, biases or the head in another. */
enum dtype model_weight_dtype(const struct model *model);
/* Equal digests: equal config (as far as it changes results), tensor table and weights' bytes
 * (sampled: every tensor's first and last page). */
void model_digest(const struct model *model, uint64_t digest_out[2]);
