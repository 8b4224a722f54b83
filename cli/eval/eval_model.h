/*
 * eval_model - a model with its forward pass, and a cache for one window of a text.
 *
 * With sinks (kvcache/sink_window.h) tokens behind the first attention_window ones are computed one by one, as a reply's: then a
 * window may be longer than the model's context.
 *
 * An encoder reads a window as its text, and the decoder is given the same tokens as a reply. Log-probabilities of such a reply are no
 * measure of a model that was not made to repeat a text: eval refuses it.
 *
 * Thread: one at a time, with the thread pool under it.
 */
#pragma once

#include "base/status.h"
#include "model/forward/forward.h"
#include "model/weights/weight_format.h"
#include "worker_common/worker_config.h"

#include <stdint.h>

#define EVAL_CHUNK_TOKENS 512 /* of a step */
#define EVAL_ROWS_MAX     32  /* of logits at once */

struct thread_pool;
struct device;
struct eval_model;

/* As a worker's rows of the same names. */
struct eval_model_options {
    enum weight_format weights;
    enum worker_kv_dtype kv_dtype;
    const char *kv_scales;
    enum context_math attention_math;
    enum block_activations block_activations;
    struct attention_switches attention;
    const char *attention_window;
    bool force_window;
    uint32_t sink_tokens;
    const char *cpu_kernels, *attention_kernels;
    const char *adapter;    /* a folder of PEFT; "": none */
    uint32_t window_tokens; /* most tokens of a window */
    bool takes_encoder;     /* false: a model with an encoder is refused */
};

/* Opens the device that computes, "cpu" too. Fails as worker_device_check and worker_device_open. The caller closes it. */
MUST_CHECK enum status eval_device_open(const char *folder, const char *name,
                                        const struct eval_model_options *options,
                                        struct device **device_out, struct error *error);
/* Borrows threads and device until close. Fails as model_load and forward_create; INVALID_ARGUMENT too if the window is longer than
 * the model's context. */
MUST_CHECK enum status eval_model_open(const char *folder, const struct eval_model_options *options,
                                       struct thread_pool *threads, struct device *device,
                                       struct error *error, struct eval_model **model_out);
void eval_model_close(struct eval_model *model); /* NULL is fine */

const struct model *eval_model_get(const struct eval_model *model);
uint32_t eval_model_vocabulary(const struct eval_model *model);
const char *eval_model_kv_dtype(const struct eval_model *model); /* "bf16" */

/* How many tokens the step at that one has, of n that are left. */
uint32_t eval_model_step(const struct eval_model *model, uint32_t at, uint32_t n);
/* Computes tokens at .. at + n - 1 of a window of n_window, after those before them; n is eval_model_step's. DEVICE_LOST. */
MUST_CHECK enum status eval_model_run(struct eval_model *model, const uint32_t *window,
                                      uint32_t n_window, uint32_t at, uint32_t n);
/* For KV of F32 in the host's memory: raises largest [layer][2] (K, V) to the largest magnitudes in the cache of the first n tokens; the
 * last window has computed them. NaN stays. */
void eval_model_take_largest(const struct eval_model *model, uint32_t n, double *largest);
/* The logits of n tokens of that step, at most EVAL_ROWS_MAX, from its first-th on: [n][vocabulary], which stay until the next call.
 * DEVICE_LOST. */
MUST_CHECK enum status eval_model_rows(struct eval_model *model, uint32_t first, uint32_t n,
                                       const float **logits_out);
