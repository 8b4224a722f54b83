#include "worker_common/worker_threads.h"

#include "base/cpu_cores.h"
#include "base/log/log.h"
#include "base/memory_nodes.h"
#include "base/thread_place.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/kernel_choice.h"
#include "worker_common/worker_device.h"

#include <assert.h>

uint32_t worker_n_threads(const struct worker_options *options, const struct cpu_cores *cores)
{
    return options->threads > 0 ? options->threads : thread_pool_default(cores);
}

/* Before threads are made, so that they inherit it. A failure costs speed alone. */
static void spread_memory(const struct cpu_cores *cores)
{
    struct error why = {""};
    if (memory_nodes_interleave(cores->nodes, &why) != STATUS_OK)
        log_warn("memory stays on the nodes that touch it first: %s", why.text);
}

static void tell(const struct worker *worker, const struct worker_options *options,
                 const char *kernels, const char *cpus, const char *places)
{
    log_info("cpu threads %u (%s%s%s) kernels %s", thread_pool_size(worker->threads),
             options->threads ? "as configured, on " : "", cpus, places, kernels);
}

struct worker_threads_plan worker_threads_plan(bool is_own, const struct worker_options *options,
                                               const struct cpu_cores *cores)
{
    struct worker_threads_plan plan = {.n = worker_n_threads(options, cores)};
    const bool wants_places = !is_own && options->cpu_placement == WORKER_PLACEMENT_AUTO &&
                              cpu_cores_want_places(cores, plan.n);
    plan.spreads_memory = wants_places && cpu_cores_nodes(cores) > 1;
    plan.is_placed = wants_places && !options->pin;
    if (plan.is_placed)
        cpu_cores_of_thread(cores, 0, &plan.engine_cpus);
    else if (options->pin && plan.n <= (uint32_t)CPU_COUNT(&cores->computing))
        cpu_set_nth(&cores->computing, 0,
                    &plan.engine_cpus); /* thread_pool_create takes the others */
    return plan;
}

static const char *places_of(const struct worker_threads_plan *plan, const struct cpu_cores *cores)
{
    return !plan->is_placed             ? ""
           : cpu_cores_nodes(cores) > 1 ? ", threads bound to the nodes"
                                        : ", threads bound to the fast cores";
}

enum status worker_create_threads_on(struct worker *worker, const struct worker_options *options,
                                     const struct cpu_room *room, const struct cpu_cores *cores,
                                     struct error *error)
{
    const bool is_own = kernel_choice_is_own(worker->device);
    const struct worker_threads_plan plan = worker_threads_plan(is_own, options, cores);
    struct kernel_choice choice;
    char cpus[CPU_CORES_TEXT_MAX];
    assert(!worker->threads);
    TRY(kernel_choice_make(is_own, worker_device_kernels(worker->device, options),
                           options->attention_kernels, error, &choice));
    if (plan.spreads_memory)
        spread_memory(cores);
    enum status status = thread_pool_create(plan.n, options->pin, &worker->threads);
    if (status != STATUS_OK)
        return error_set(error, status, "threads %u: %s", plan.n, status_text(status));
    if (plan.is_placed)
        thread_pool_place(worker->threads, cores);
    worker->engine_cpus = plan.engine_cpus;
    cpu_cores_format(cores, room, cpus);
    tell(worker, options, choice.products->name, cpus, places_of(&plan, cores));
    return STATUS_OK;
}

enum status worker_create_threads(struct worker *worker, const struct worker_options *options,
                                  struct error *error)
{
    struct cpu_room room;
    struct cpu_cores cores;
    cpu_room_read("", &room);
    cpu_cores_read("", &room, &cores);
    return worker_create_threads_on(worker, options, &room, &cores, error);
}
