#include "worker_common/worker_kernels.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/thread_pool.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "kvcache/geometry.h"
#include "model/kernel_choice.h"
#include "model/model.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_forward.h"
#include "worker_common/worker_metrics.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(KERNEL_TRIAL_MAX >= KERNELS_MAX, "every set can take part");

static bool is_given(const char *row, const char *variable)
{
    const char *value = row && row[0] ? row : getenv(variable);
    return value && value[0];
}

static bool products_are_given(const struct worker_options *options)
{
    return is_given(options->cpu_kernels, "KVFERRY_CPU");
}

static bool attention_is_given(const struct worker_options *options)
{
    return is_given(options->attention_kernels, "KVFERRY_ATTENTION");
}

struct worker_kernels worker_kernels_configured(const struct worker *worker,
                                                const struct worker_options *options)
{
    const bool is_given = kernel_choice_is_own(worker->device)
                              ? options->device_math == WORKER_MATH_FAST
                              : products_are_given(options) || attention_is_given(options);
    return (struct worker_kernels){worker_device_kernels(worker->device, options),
                                   options->attention_kernels,
                                   is_given ? WORKER_KERNELS_CONFIGURED : WORKER_KERNELS_DEFAULT};
}

/* Whether a part has times of two sets, so that one of them was chosen by its time. */
static bool has_compared(const struct kernel_trial_choice *choice, uint32_t n)
{
    uint32_t n_of[2] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (int part = KERNEL_PRODUCTS; part <= KERNEL_ATTENTION; part++)
            n_of[part] += choice->times_ns[i][part] > 0;
    return n_of[KERNEL_PRODUCTS] >= 2 || n_of[KERNEL_ATTENTION] >= 2;
}

static void log_choice(const struct kernel_trial_choice *choice, const struct kernels *const *sets,
                       uint32_t n)
{
    uint32_t n_measured = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_measured += choice->times_ns[i][KERNEL_PRODUCTS] > 0;
        n_measured += choice->times_ns[i][KERNEL_ATTENTION] > 0;
        log_event(LOG_DEBUG, NULL, "kernels measured", LOG_TEXT("set", sets[i]->name),
                  LOG_U64("products_ns", choice->times_ns[i][KERNEL_PRODUCTS]),
                  LOG_U64("attention_ns", choice->times_ns[i][KERNEL_ATTENTION]));
    }
    log_event(LOG_INFO, NULL,
              has_compared(choice, n) ? "kernels chosen by measurement"
                                      : "no time to measure kernels, the default stays",
              LOG_TEXT("products", choice->products->name),
              LOG_TEXT("attention", attention_backend_set(choice->attention->attention)),
              LOG_U64("n_sets", n), LOG_U64("n_not_measured", 2 * n - n_measured),
              LOG_U64("ms", choice->took_ns / NS_PER_MS));
}

/* The sets that take part; below 2: there is nothing to measure. */
static uint32_t sets_of(const struct worker *worker, const struct worker_options *options,
                        const struct worker_kernels_trial *list, struct kernel_trial *trial_out,
                        const struct kernels *sets_out[KERNEL_TRIAL_MAX])
{
    if (kernel_choice_is_own(worker->device) || products_are_given(options))
        return 0;
    *trial_out = (struct kernel_trial){
        .weights = options->weights, .math = options->context_math, .threads = worker->threads};
    return kernel_trial_sets(trial_out, list->sets, list->n_sets, sets_out);
}

/* From the folder's files, of which none is read but its head. */
static enum status read_types(const struct worker_options *options, struct kernel_trial *trial,
                              struct model **model_out, struct error *error)
{
    const struct model_options shapes = {.weights = options->weights,
                                         .cpu_kernels = options->cpu_kernels,
                                         .attention_kernels = options->attention_kernels,
                                         .without_weights = true,
                                         .is_quiet = true};
    TRY(model_load(options->folder, &shapes, error, model_out));
    trial->config = model_get_config(*model_out);
    trial->weight_dtype = model_weight_dtype(*model_out);
    trial->cache = worker_element_dtype(worker_kv_dtype(options->kv_dtype, trial->weight_dtype));
    return STATUS_OK;
}

enum status worker_kernels_choose(const struct worker *worker, const struct worker_options *options,
                                  const struct worker_kernels_trial *given,
                                  struct worker_kernels *kernels_out, struct error *error)
{
    const struct kernels *list[KERNELS_MAX], *sets[KERNEL_TRIAL_MAX];
    const struct worker_kernels_trial own = {list, kernels_list(list, KERNELS_MAX),
                                             &kernel_trial_ways};
    struct kernel_trial trial;
    struct kernel_trial_choice choice;
    struct model *model = NULL;
    struct worker_kernels kernels = worker_kernels_configured(worker, options);
    if (!given)
        given = &own;
    const uint32_t n = sets_of(worker, options, given, &trial, sets);
    if (n >= 2) {
        TRY(read_types(options, &trial, &model, error));
        kernel_trial_choose(&trial, sets, n, given->ways, &choice);
        model_destroy(model);
        if (has_compared(&choice, n))
            kernels.chosen = WORKER_KERNELS_MEASURED;
        kernels.products = choice.products->name;
        if (!attention_is_given(options))
            kernels.attention = attention_backend_set(choice.attention->attention);
        log_choice(&choice, sets, n);
    }
    *kernels_out = kernels;
    return STATUS_OK;
}

uint32_t worker_kernels_measured(const struct worker *worker, const struct worker_options *options)
{
    const struct kernels *list[KERNELS_MAX], *sets[KERNEL_TRIAL_MAX];
    const struct worker_kernels_trial own = {list, kernels_list(list, KERNELS_MAX), NULL};
    struct kernel_trial trial;
    return sets_of(worker, options, &own, &trial, sets);
}

const char *worker_kernels_word(enum worker_kernels_chosen chosen)
{
    switch (chosen) {
    case WORKER_KERNELS_DEFAULT:
        return "default";
    case WORKER_KERNELS_CONFIGURED:
        return "configured";
    case WORKER_KERNELS_MEASURED:
        return "measured";
    }
    assert(false && "all are above");
    return "";
}

/* A user may have left them over from a comparison. */
static void warn_of_slow(const char *what, const char *set)
{
    if (strcmp(set, "reference") == 0 || strcmp(set, "scalar") == 0)
        log_event(LOG_WARN, NULL, "kernels that are for comparisons, and slow",
                  LOG_TEXT("of", what), LOG_TEXT("set", set));
}

void worker_kernels_tell(struct worker *worker)
{
    struct process_kernels *told = &worker->kernels;
    assert(worker->model && told->chosen_by[0]);
    snprintf(told->products, sizeof told->products, "%s", model_kernels(worker->model)->name);
    snprintf(told->attention, sizeof told->attention, "%s",
             attention_backend_set(model_attention(worker->model)));
    told->threads = thread_pool_size(worker->threads);
    warn_of_slow("products", told->products);
    warn_of_slow("attention", told->attention);
}
