/*
 * worker_kernels - which sets of kernels a worker computes with: the configured ones, or on a host those that measure
 * fastest (model/forward/kernel_trial.h).
 *
 * Thread: main, after worker_create_threads.
 */
#pragma once

#include "model/forward/kernel_trial.h"
#include "worker_common/worker_object.h"

/* The configured names without any measurement. */
struct worker_kernels worker_kernels_configured(const struct worker *worker,
                                                const struct worker_options *options);

/* What is measured, and how. */
struct worker_kernels_trial {
    const struct kernels *const *sets; /* slowest to fastest by name, as kernels_list has them */
    uint32_t n_sets;
    const struct kernel_trial_ways *ways;
};

/* Measures if nothing is configured, here or in KVFERRY_CPU, and two sets have the default's bits: for KERNEL_TRIAL_NS.
 * The types of weights and cache are those that the model will have. trial NULL: the sets of this machine. Logs the
 * choice. Statuses of model_load. */
MUST_CHECK enum status worker_kernels_choose(const struct worker *worker,
                                             const struct worker_options *options,
                                             const struct worker_kernels_trial *trial,
                                             struct worker_kernels *kernels_out,
                                             struct error *error);
/* How many sets a start on this machine would measure; below 2: it measures nothing. */
uint32_t worker_kernels_measured(const struct worker *worker, const struct worker_options *options);

const char *worker_kernels_word(enum worker_kernels_chosen chosen); /* "measured" */
/* Sets worker->kernels, as status and metrics show it. After the model is loaded. */
void worker_kernels_tell(struct worker *worker);
