#include "worker_common/worker_device.h"

#include "base/log/log.h"
#include "model/kernel_choice.h"

#include <assert.h>
#include <string.h>

#define MIB      (1 << 20)
#define NUMBERED "cuda:"

const char *worker_device_name(const struct worker_options *options)
{
    return options->device ? options->device : "cpu";
}

const char *worker_device_kernels(const struct device *device, const struct worker_options *options)
{
    bool is_fast = options->device_math == WORKER_MATH_FAST && kernel_choice_is_own(device);
    return is_fast ? KERNEL_CHOICE_FAST : options->cpu_kernels;
}

static bool is_numbered(const char *name)
{
    const size_t length = strlen(NUMBERED);
    const char *number = name + length;
    return strncmp(name, NUMBERED, length) == 0 && number[0] &&
           strspn(number, "0123456789") == strlen(number);
}

static bool is_auto(const struct worker_options *options)
{
    return strcmp(worker_device_name(options), "auto") == 0;
}

static enum status check_gpu(const struct worker_options *options, const char *name,
                             struct error *error)
{
    struct kernel_choice choice;
    if (options->cpu_kernels && options->cpu_kernels[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "cpu_kernels is \"%s\": device %s computes with its own kernels",
                         options->cpu_kernels, name);
    if (options->is_read_from && options->kv_transport == KV_SHM_READ)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_transport shm-read shares the host's memory, but device %s has its "
                         "own: use cuda-ipc, unix, am-tcp or tls",
                         name);
    if (options->kv_scrub || options->conversions_max > 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s is yes, but device is %s: it is for KV blocks in the memory of the "
                         "host",
                         options->kv_scrub ? "kv_scrub" : "kv_convert", name);
    return kernel_choice_make(true, NULL, options->attention_kernels, error, &choice);
}

static enum status check_cpu(const struct worker_options *options, struct error *error)
{
    struct kernel_choice choice;
    if (options->kv_transport == KV_CUDA_IPC)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_transport cuda-ipc maps memory of a GPU, but device cpu has none: use "
                         "shm-read, unix, am-tcp or tls");
    if (options->device_math == WORKER_MATH_FAST)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "device_math is fast: it needs a GPU, but device is cpu");
    return kernel_choice_make(false, options->cpu_kernels, options->attention_kernels, error,
                              &choice);
}

enum status worker_device_check(const struct worker_options *options, struct error *error)
{
    const char *name = worker_device_name(options);
    assert(name);
    if (is_auto(options))
        return STATUS_OK; /* checked when the device is opened */
    if (strcmp(name, "cpu") == 0)
        return check_cpu(options, error);
    if (!is_numbered(name))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "device is \"%s\", expected cpu, cuda:N or auto", name);
    return check_gpu(options, name, error);
}

/* With "auto", a GPU for which this build has no kernels is not used: the CPU is. */
static enum status load(const struct worker_options *options, struct device **device,
                        struct error *error)
{
    enum status status = kernel_choice_load(*device, error);
    if (status != STATUS_UNSUPPORTED || !is_auto(options))
        return status;
    log_event(LOG_INFO, NULL, "device chosen", LOG_TEXT("device", "cpu"),
              LOG_TEXT("why", error->text));
    device_close(*device);
    *device = NULL;
    error_write(error, "%s", "");
    return device_open("cpu", device, error);
}

enum status worker_device_open(const struct worker_options *options, struct device **device_out,
                               struct error *error)
{
    struct device *device = NULL;
    TRY(device_open(worker_device_name(options), &device, error));
    enum status status = load(options, &device, error);
    if (status == STATUS_OK && is_auto(options))
        status = kernel_choice_is_own(device) ? check_gpu(options, device_name(device), error)
                                              : check_cpu(options, error);
    if (status != STATUS_OK)
        device_close(device);
    else
        *device_out = device;
    return status;
}

enum status worker_device_probe(const struct worker_options *options, struct error *error)
{
    struct device *device = NULL;
    if (strcmp(worker_device_name(options), "cpu") == 0)
        return STATUS_OK;
    TRY(worker_device_open(options, &device, error));
    device_close(device);
    return STATUS_OK;
}

uint64_t worker_device_memory(const struct device *device)
{
    return device ? device_get_traits(device).memory_bytes : 0;
}

uint64_t worker_device_room(struct device *device)
{
    const uint64_t n_free = device ? device_free_bytes(device) : UINT64_MAX;
    return n_free < UINT64_MAX ? device_bytes_taken(device) + n_free / 32 * 31 : 0;
}

enum status worker_device_fits(struct device *device, const char *what, uint64_t bytes,
                               struct error *error)
{
    return bytes <= device_free_bytes(device) ? STATUS_OK
                                              : device_no_memory(device, what, bytes, error);
}

enum status worker_device_advise(enum status status, const struct device *device,
                                 const char *advice, struct error *error)
{
    const struct error cause = *error;
    if (status != STATUS_NO_MEMORY || worker_device_memory(device) == 0)
        return status;
    return error_set(error, status, "%s: %s", cause.text, advice);
}

const char *worker_device_less_work(const struct worker_options *options)
{
    return options->is_read_from
               ? "lower prefill_batch_tokens, prompts_max or max_context_tokens"
               : "lower prefill_batch_tokens, sequences_max or max_context_tokens";
}
