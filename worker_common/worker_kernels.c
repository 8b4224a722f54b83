#include "worker_common/worker_kernels.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/kernel_choice.h"
#include "model/kernel_trial.h"
#include "worker_common/worker_device.h"

#include <stdlib.h>

_Static_assert(KERNEL_TRIAL_MAX >= KERNELS_MAX, "every set can take part");

struct worker_kernels worker_kernels_configured(const struct worker *worker,
                                                const struct worker_options *options)
{
    return (struct worker_kernels){worker_device_kernels(worker->device, options),
                                   options->attention_kernels};
}

static bool is_given(const char *row, const char *variable)
{
    const char *value = row && row[0] ? row : getenv(variable);
    return value && value[0];
}

static enum dtype cache_of(const struct worker_options *options)
{
    return options->kv_dtype == WORKER_KV_F32   ? DTYPE_F32
           : options->kv_dtype == WORKER_KV_F16 ? DTYPE_F16
                                                : DTYPE_BF16;
}

static void tell(const struct kernel_trial_choice *choice, const struct kernels *const *sets,
                 uint32_t n, uint64_t took_ns)
{
    for (uint32_t i = 0; i < n; i++)
        log_event(LOG_DEBUG, NULL, "kernels measured", LOG_TEXT("set", sets[i]->name),
                  LOG_U64("products_ns", choice->times_ns[i][KERNEL_PRODUCTS]),
                  LOG_U64("attention_ns", choice->times_ns[i][KERNEL_ATTENTION]));
    log_event(LOG_INFO, NULL, "kernels chosen by measurement",
              LOG_TEXT("products", choice->products->name),
              LOG_TEXT("attention", attention_backend_set(choice->attention->attention)),
              LOG_U64("n_sets", n), LOG_U64("ms", took_ns / NS_PER_MS));
}

enum status worker_kernels_choose(const struct worker *worker, const struct worker_options *options,
                                  struct worker_kernels *kernels_out, struct error *error)
{
    const struct kernels *list[KERNELS_MAX], *sets[KERNEL_TRIAL_MAX];
    struct model_config config;
    struct kernel_trial_choice choice;
    *kernels_out = worker_kernels_configured(worker, options);
    if (kernel_choice_is_own(worker->device) || is_given(options->cpu_kernels, "KVFERRY_CPU"))
        return STATUS_OK;
    struct kernel_trial trial = {.config = &config,
                                 .weights = options->weights,
                                 .math = options->context_math,
                                 .cache = cache_of(options),
                                 .threads = worker->threads};
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    const uint32_t n = kernel_trial_sets(&trial, list, n_list, sets);
    if (n < 2)
        return STATUS_OK;
    TRY(model_config_read(options->folder, &config, error));
    const uint64_t begin_ns = clock_now_ns();
    kernel_trial_choose(sets, n, kernel_trial_time, &trial, &choice);
    kernels_out->products = choice.products->name;
    if (!is_given(options->attention_kernels, "KVFERRY_ATTENTION"))
        kernels_out->attention = attention_backend_set(choice.attention->attention);
    tell(&choice, sets, n, clock_now_ns() - begin_ns);
    return STATUS_OK;
}
