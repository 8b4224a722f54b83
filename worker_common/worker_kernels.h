/*
 * worker_kernels - which sets of kernels a worker computes with: the configured ones, or on a host those that measure
 * fastest (model/kernel_trial.h).
 *
 * Thread: main, after worker_create_threads.
 */
#pragma once

#include "worker_common/worker_object.h"

/* Names for model_options; NULL or empty: the default. */
struct worker_kernels {
    const char *products, *attention;
};

/* The configured names without any measurement. */
struct worker_kernels worker_kernels_configured(const struct worker *worker,
                                                const struct worker_options *options);
/* Measures if nothing is configured, here or in KVFERRY_CPU, and two sets have the default's bits: at most some 30 ms.
 * Logs the choice. Statuses of model_config_read. */
MUST_CHECK enum status worker_kernels_choose(const struct worker *worker,
                                             const struct worker_options *options,
                                             struct worker_kernels *kernels_out,
                                             struct error *error);
