/*
 * kernel_trial - chooses by measurement between sets of kernels that compute the same bits.
 *
 * The fastest set by name is not the fastest on every machine: AVX-512 may lower the clock, or run in two halves. So
 * at start each set computes products and attention of the model's shapes for a few milliseconds. Only sets with the
 * numerics id of the default take part, without scalar; so the choice changes no bit, and products and attention are
 * chosen apart. The default stays unless another set needs at most nine tenths of its time, so that noise changes
 * nothing.
 *
 * Thread: main, at start.
 */
#pragma once

#include "kernels/attention.h"
#include "kernels/kernel_set.h"
#include "model/forward.h"
#include "model/model_config.h"
#include "model/weight_format.h"

#define KERNEL_TRIAL_MAX 12u /* sets */
#define KERNEL_TRIAL_NS                                                                            \
    (16 * 1000 * 1000ull) /* for all sets together, without making their inputs */

struct kernel_trial {
    const struct model_config *config;
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

/* The shortest time of the part with this set, measured for budget_ns; 0: it could not be measured. */
typedef uint64_t (*kernel_trial_measure)(void *arg, const struct kernels *set,
                                         enum kernel_part part, uint64_t budget_ns);
/* The measurement of this machine. arg: a const struct kernel_trial. */
uint64_t kernel_trial_time(void *arg, const struct kernels *set, enum kernel_part part,
                           uint64_t budget_ns);

struct kernel_trial_choice {
    const struct kernels *products, *attention;
    uint64_t times_ns[KERNEL_TRIAL_MAX][2]; /* of each set, by part */
};

/* sets: as kernel_trial_sets. n > 0. */
void kernel_trial_choose(const struct kernels *const *sets, uint32_t n,
                         kernel_trial_measure measure, void *arg,
                         struct kernel_trial_choice *choice_out);
