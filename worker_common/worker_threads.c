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

enum status worker_create_threads(struct worker *worker, const struct worker_options *options,
                                  struct error *error)
{
    const bool is_own = kernel_choice_is_own(worker->device);
    struct kernel_choice choice;
    struct cpu_room room;
    struct cpu_cores cores;
    assert(!worker->threads);
    TRY(kernel_choice_make(is_own, worker_device_kernels(worker->device, options),
                           options->attention_kernels, error, &choice));
    cpu_room_read("", &room);
    cpu_cores_read("", &room, &cores);
    const uint32_t n = worker_n_threads(options, &cores);
    const bool is_placed = !is_own && options->cpu_placement == WORKER_PLACEMENT_AUTO &&
                           cpu_cores_want_places(&cores, n);
    if (is_placed && cpu_cores_nodes(&cores) > 1)
        spread_memory(&cores);
    enum status status = thread_pool_create(n, options->pin, &worker->threads);
    if (status != STATUS_OK)
        return error_set(error, status, "threads %u: %s", n, status_text(status));
    const char *places = "";
    if (is_placed && !options->pin) {
        thread_pool_place(worker->threads, &cores);
        places = cpu_cores_nodes(&cores) > 1 ? ", threads bound to the nodes"
                                             : ", threads bound to the fast cores";
    }
    char cpus[CPU_CORES_TEXT_MAX];
    cpu_cores_format(&cores, &room, cpus);
    tell(worker, options, choice.products->name, cpus, places);
    return STATUS_OK;
}
