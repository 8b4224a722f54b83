/*
 * kernel_trial - chooses by measurement between sets of kernels that compute the same bits.
 *
 * The fastest set by name is not the fastest on every machine: AVX-512 may lower the clock, or run in two halves. So
 * at start each set computes products and attention for a few milliseconds, of the model's shapes, with weights and a
 * cache of its types. Only sets with the
 * numerics id of the default take part, without scalar; so the choice changes no bit, and products and attention are
 * chosen apart. The default stays unless another set needs at most nine tenths of its time, so that noise changes
 * nothing. The default is measured first; what there is no time left for is not measured, and not chosen.
 *
 * Thread: main, at start.
 */
#pragma once

#include "kernels/attention.h"
#include "kernels/kernel_set.h"
#include "model/config/model_config.h"
#include "model/forward/forward.h"
#include "model/weights/weight_format.h"

#define KERNEL_TRIAL_MAX 12u /* sets */
/* For all sets together, their inputs included. No part begins after it. One that has begun makes its inputs and calls
 * the kernel twice, so the end is later by that at most. */
#define KERNEL_TRIAL_NS (24 * 1000 * 1000ull)

struct kernel_trial {
    const struct model_config *config;
    enum dtype weight_dtype; /* in the files */
    enum weight_format weights;
    enum context_math math;
    enum dtype cache;
    struct thread_pool *threads;
};

/* The sets of list that compute the bits of the default, its last one, for this trial: the default first.
 * Returns how many. */
uint32_t kernel_trial_sets(const struct kernel_trial *trial, const struct kernels *const *list,
                           uint32_t n_list, const struct kernels *sets_out[KERNEL_TRIAL_MAX]);

enum kernel_part { KERNEL_PRODUCTS, KERNEL_ATTENTION };

/* How a trial measures: what this machine does, or a test in its place. */
struct kernel_trial_ways {
    uint64_t (*now_ns)(void *arg);
    /* The shortest time of the part with this set, measured until until_ns; 0: it could not be measured. */
    uint64_t (*time_ns)(void *arg, const struct kernel_trial *trial, const struct kernels *set,
                        enum kernel_part part, uint64_t until_ns);
    void *arg;
};
extern const struct kernel_trial_ways kernel_trial_ways; /* of this machine */

struct kernel_trial_choice {
    const struct kernels *products, *attention;
    uint64_t times_ns[KERNEL_TRIAL_MAX][2]; /* of each set, by part; 0: not measured */
    uint64_t took_ns;
};

/* sets: as kernel_trial_sets. n > 0. */
void kernel_trial_choose(const struct kernel_trial *trial, const struct kernels *const *sets,
                         uint32_t n, const struct kernel_trial_ways *ways,
                         struct kernel_trial_choice *choice_out);
