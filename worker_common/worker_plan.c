#include "base/cpu_cores.h"
#include "base/memory_room.h"
#include "device/plan_device.h"
#include "kernels/attention_backends.h"
#include "kernels/kernel_set.h"
#include "model/config/families.h"
#include "worker_common/pool_memory.h"
#include "worker_common/worker.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_draft.h"
#include "worker_common/worker_kernels.h"
#include "worker_common/worker_paper.h"
#include "worker_common/worker_pool.h"
#include "worker_common/worker_threads.h"
#include "worker_common/worker_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define MIB (1 << 20)

static double mib(uint64_t bytes)
{
    return (double)bytes / MIB;
}

static bool is_mapped(const struct worker_options *options)
{
    return options->weights == WEIGHTS_AUTO;
}

static uint64_t process_bytes(const struct worker *worker)
{
    return worker->taken.process_bytes + worker->table_bytes + KV_LOAD_BYTES;
}

/* Whether weights and pool are in the device's own memory. */
static bool has_own_memory(const struct worker *worker)
{
    return worker_device_memory(worker->device) > 0;
}

/* The bytes for all workers that share the memory limit or the machine. Mapped weights count once. */
static uint64_t needs_bytes(const struct worker *worker, const struct worker_options *options)
{
    uint64_t n = options->kv_sharers;
    if (has_own_memory(worker))
        return n * process_bytes(worker);
    uint64_t weights = worker->taken.mapped_bytes * (is_mapped(options) ? 1 : n);
    return weights + n * (worker_pool_bytes(worker) + process_bytes(worker));
}

static void print_model(const struct worker *worker, const struct worker_options *options,
                        FILE *out)
{
    fprintf(out, "model       %s, %s, %.1f million parameters, context %u of %u tokens\n",
            options->folder, model_family_name(worker->config->family),
            (double)model_parameters(worker->model) / 1e6, worker->context_tokens,
            worker->config->context_tokens);
    fprintf(out, "weights     %.1f MiB in files, %s\n", mib(model_weight_bytes(worker->model)),
            !is_mapped(options)      ? "converted when loaded"
            : has_own_memory(worker) ? "copied when loaded"
                                     : "mapped from the files");
    fprintf(out, "numerics    %s\n", worker->identity.geometry.numerics);
}

/* If only the machine's memory limits the pool: prints how much is free. */
static void print_free(const struct worker *worker, const struct worker_options *options, FILE *out)
{
    const uint64_t n_bytes = worker->pool_plan.free_bytes;
    if (n_bytes == 0)
        return;
    fprintf(
        out,
        "free        %.1f MiB for KV blocks, without weights and processes; a third is %.1f MiB",
        mib(n_bytes), mib(n_bytes / 3 / options->kv_sharers));
    fprintf(out, options->kv_sharers > 1 ? " for each of %u workers\n" : "\n", options->kv_sharers);
}

static void print_pool(const struct worker *worker, FILE *out)
{
    const struct geometry *geometry = &worker->identity.geometry;
    const uint32_t n_blocks = worker_room_blocks(worker);
    assert(worker->context_blocks > 0 && "worker_load_shape made it");
    fprintf(out, "pool        %u blocks of %u tokens, %.1f MiB of %s: %s\n", worker->n_blocks,
            geometry->block_tokens, mib(worker_pool_bytes(worker)), kv_dtype_name(geometry->dtype),
            kv_plan_rule_text(worker->pool_plan.rule));
    fprintf(out, "room        %" PRIu64 " tokens: %u requests of %u, or %u of 512\n",
            worker_room_tokens(worker), n_blocks / worker->context_blocks, worker->context_tokens,
            n_blocks / geometry_blocks(geometry, 512));
}

/* The device's own memory, counted as a start counts it. */
static void print_taken(const struct worker *worker, const struct worker_options *options,
                        FILE *out)
{
    const struct device *device = worker->device;
    fprintf(out, "taken       weights %.1f MiB, activations %.1f MiB, staging %.1f MiB, ",
            mib(device_bytes(device, DEVICE_WEIGHTS)),
            mib(device_bytes(device, DEVICE_ACTIVATIONS)),
            mib(device_bytes(device, DEVICE_STAGING)));
    fprintf(out, "workspace %.1f MiB%s; for a step of %u tokens\n",
            mib(device_bytes(device, DEVICE_WORKSPACE)),
            options->device_math == WORKER_MATH_FAST ? " with cuBLASLt's" : "",
            options->step_tokens_max);
    fprintf(out, "not known   what graphs of steps take of the pool's part, and the driver of the "
                 "host's memory: measured at start\n");
}

/* A real start measures the work and plans the pool by that. */
static void print_work(const struct worker *worker, const struct worker_options *options, FILE *out)
{
    const uint64_t tier_bytes = worker_tier_bytes(worker, options);
    if (has_own_memory(worker))
        print_taken(worker, options, out);
    else
        fprintf(out, "activations %.1f MiB, computed for a step of %u tokens; measured at start\n",
                mib(worker->taken.process_bytes - KV_START_BYTES - worker->stage_bytes -
                    tier_bytes - worker->draft_bytes),
                options->step_tokens_max);
    if (worker->draft_model)
        fprintf(out, "draft model %.1f MiB, and weights mapped from the files %.1f MiB\n",
                mib(worker->draft_bytes), mib(worker->draft_mapped_bytes));
    if (tier_bytes > 0)
        fprintf(out, "tiers       %.1f MiB, of kv_host_memory and of blocks on their way\n",
                mib(tier_bytes));
    if (worker->table_bytes > 0)
        fprintf(out, "tables      %.1f MiB, of what is cached, and its events\n",
                mib(worker->table_bytes));
    if (worker->stage_bytes > 0)
        fprintf(out, "conversion  up to %.1f MiB, for blocks of another kind\n",
                mib(worker->stage_bytes));
}

/* Checks that all workers that share the device can start together, each with the same needs. Memory that only the
 * plan has taken counts as free. NO_MEMORY: less is free. */
static enum status print_sharers(const struct worker *worker, const struct worker_options *options,
                                 uint64_t needs, FILE *out, struct error *error)
{
    const uint64_t n_free = device_free_bytes(worker->device) + device_bytes_taken(worker->device);
    const uint64_t all = options->kv_sharers * needs;
    fprintf(out, "free now    %.1f MiB of it", mib(n_free));
    if (options->kv_sharers > 1)
        fprintf(out, "; %u workers share it, as many such need %.1f MiB", options->kv_sharers,
                mib(all));
    fputc('\n', out);
    if (all <= n_free)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY,
                     "%u workers that need %.1f MiB of %s each need %.1f MiB, and %.1f MiB are "
                     "free: lower device_memory or kv_memory, or end other processes on it",
                     options->kv_sharers, mib(needs), device_name(worker->device), mib(all),
                     mib(n_free));
}

/* NO_MEMORY: the workers that share the device need more than is free. */
static enum status print_device(const struct worker *worker, const struct worker_options *options,
                                FILE *out, struct error *error)
{
    if (!has_own_memory(worker))
        return STATUS_OK;
    const struct device_traits traits = device_get_traits(worker->device);
    uint64_t part = kv_plan_device_bytes(traits.memory_bytes, options->device_memory,
                                         options->kv_sharers);
    uint64_t needs = worker->taken.device_bytes +
                     worker_pool_memory(options, worker_pool_bytes(worker));
    fprintf(out, "device      %s, architecture %u, %u processors, %.1f MiB\n",
            device_name(worker->device), traits.architecture, traits.n_processors,
            mib(traits.memory_bytes));
    fprintf(out, "of it       %.1f MiB for this worker, of which %.1f MiB are needed\n", mib(part),
            mib(needs));
    assert(needs <= part && "kv_plan_make refuses what is more");
    return print_sharers(worker, options, needs, out, error);
}

static void print_threads(const struct worker_options *options, FILE *out)
{
    struct cpu_room room;
    struct cpu_cores cores;
    char text[CPU_CORES_TEXT_MAX];
    cpu_room_read("", &room);
    cpu_cores_read("", &room, &cores);
    cpu_cores_format(&cores, &room, text);
    fprintf(out, "threads     %u compute%s; %s\n", worker_n_threads(options, &cores),
            options->threads ? ", as configured" : "", text);
}

static void print_kernels(const struct worker *worker, const struct worker_options *options,
                          FILE *out)
{
    const struct worker_kernels kernels = worker_kernels_configured(worker, options);
    const uint32_t n = worker_kernels_measured(worker, options);
    const char *attention = attention_backend_set(model_attention(worker->model));
    fprintf(out, "kernels     products %s, attention %s, %s", model_kernels(worker->model)->name,
            attention, worker_kernels_word(kernels.chosen));
    if (n >= 2)
        fprintf(out, "; a start measures %u sets with these bits and may choose another", n);
    fputc('\n', out);
}

static enum status print_memory(const struct worker *worker, const struct worker_options *options,
                                FILE *out, struct error *error)
{
    struct memory_room room;
    if (memory_room_read("", &room) != STATUS_OK)
        return error_set(error, STATUS_IO_FAILED, "/proc/meminfo has no MemAvailable");
    uint64_t needs = needs_bytes(worker, options);
    fprintf(out, "memory      %.1f MiB available", mib(room.available_bytes));
    if (room.limit_bytes > 0)
        fprintf(out, " under the cgroup's limit of %.1f MiB", mib(room.limit_bytes));
    fprintf(out, "\nneeds       %.1f MiB, of which %.1f MiB a process besides weights and pool",
            mib(needs), mib(process_bytes(worker)));
    if (options->kv_sharers > 1)
        fprintf(out, "; %u workers share it", options->kv_sharers);
    fputc('\n', out);
    if (needs <= room.available_bytes)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY,
                     "it needs %.1f MiB and there are %.1f MiB: lower kv_memory or "
                     "max_context_tokens, or give the process more memory",
                     mib(needs), mib(room.available_bytes));
}

enum status worker_plan(const struct worker_options *options, const char *role,
                        const char *control_address, FILE *out, struct error *error)
{
    struct worker worker = {0};
    struct device *device = NULL;
    enum status status = STATUS_OK;
    TRY(worker_check(options, control_address, error));
    if (strcmp(worker_device_name(options), "cpu") != 0)
        TRY(worker_device_open(options, &device, error));
    worker.device = device;
    if (worker_device_memory(device) > 0)
        status = plan_device_open(device, &worker.device);
    if (status == STATUS_OK)
        status = worker_load_shape(&worker, options, error);
    if (status == STATUS_OK) {
        fprintf(out, "\nrole        %s\n", role);
        print_model(&worker, options, out);
        print_work(&worker, options, out);
        print_free(&worker, options, out);
        print_pool(&worker, out);
        print_threads(options, out);
        print_kernels(&worker, options, out);
        status = print_memory(&worker, options, out, error);
        enum status on_device = print_device(&worker, options, out, error);
        status = status == STATUS_OK ? on_device : status;
    }
    worker_paper_free(&worker);
    adapter_set_destroy(worker.adapters);
    worker_draft_unload(&worker);
    model_destroy(worker.model);
    if (worker.device != device)
        device_close(worker.device);
    device_close(device);
    return status;
}
