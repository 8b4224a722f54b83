/*
 * run - a case computed by one back end: its sequences' prompts in chunks, then their generation.
 *
 * Tensors end at a guard page; what the operator may not read is NaN; what it may not write (inputs,
 * padded rows, gaps between rows, other layers' and nobody's slots) is checked. A device's back end finds everything that
 * is not said to be the host's in memory of the device.
 *
 * Thread: any, a run at a time; runs of the same data may be side by side.
 */
#pragma once

#include "device/device.h"
#include "tests/kernels/cases/data.h"

#define CASE_ALL UINT32_MAX

struct case_options {
    const struct attention_backend *backend;
    struct thread_pool *pool;
    uint32_t only;        /* index of the only sequence that runs, or CASE_ALL */
    bool is_oracle;       /* takes no short way: its metadata never becomes static */
    bool updates_prompts; /* steps of contexts alone are written by kv_update, not attended */
    /* The back end's, bound to the thread; NULL: the host. A step is laid out where the host may write, sent, and gone
     * when it is computed. adopt makes memory of the test the device's until the run's end. */
    struct device *device;
    void (*adopt)(struct device *device, const void *base, size_t bytes);
    void (*disown)(struct device *device, const void *base, size_t bytes); /* NULL: nothing to do */
};

struct case_result {
    float *output;     /* [n_layers][n_rows][q_width]; rows of sequences that did not run are NaN */
    float *lse;        /* [n_layers][n_rows][n_heads] */
    bool *is_computed; /* [n_rows] */
    struct guarded caches[CASE_LAYERS_MAX];
    size_t cache_bytes[CASE_LAYERS_MAX];
    uint32_t n_caches;
    char problem[512]; /* empty: none */
};

void case_run(const struct case_data *data, const struct case_options *options,
              struct case_result *result_out);
void case_result_finish(struct case_result *result);

/* Says what is wrong, once. */
#define case_complain(result, ...)                                                                 \
    ((result)->problem[0] ? 0 : snprintf((result)->problem, sizeof(result)->problem, __VA_ARGS__))
