#include "tests/simt/simt_device.h"

#include "base/crc32c.h"
#include "device/device_ops.h"
#include "harness/memory.h"
#include "harness/simt.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u

enum { PARAMETER_BYTES_MAX = 4096 };

struct simt_launched {
    uint32_t kernel;
    struct device_shape shape;
    alignas(max_align_t) uint8_t parameters[PARAMETER_BYTES_MAX];
};

struct simt_graph {
    struct device_graph base;
    struct simt_launched *launches; /* [n_launches] */
    uint32_t n_launches;
};

struct simt_device {
    struct device device;
    struct simt_graph *capturing; /* NULL: launches run */
    uint64_t n_replays;
    uint32_t launches_digest;
    struct device_ops ops;
    struct simt_schedule schedule;
    bool poisons;
    struct simt_adopted *adopted;
};

struct simt_adopted {
    const void *base;
    struct simt_adopted *next;
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void simt_close(struct device *device)
{
    struct simt_device *simt = (struct simt_device *)device;
    while (simt->adopted) {
        struct simt_adopted *adopted = simt->adopted;
        simt->adopted = adopted->next;
        simt_memory_remove(adopted->base);
        free(adopted);
    }
    free(simt);
}

static enum status simt_allocate(struct device *device, size_t bytes, uint8_t **base_out)
{
    const struct simt_device *simt = (const struct simt_device *)device;
    size_t n = whole_pages(bytes);
    uint8_t *mapped = mmap(NULL, n + PAGE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return STATUS_NO_MEMORY;
    int code = mprotect(mapped + n, PAGE_BYTES, PROT_NONE);
    assert(code == 0);
    (void)code;
    if (simt->poisons)
        memset(mapped, 0xff, n);
    simt_memory_add(mapped, bytes);
    *base_out = mapped;
    return STATUS_OK;
}

static void simt_free(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device;
    simt_memory_remove(base);
    munmap(base, whole_pages(bytes) + PAGE_BYTES);
}

static enum status simt_wrap(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device, (void)base, (void)bytes;
    return STATUS_UNSUPPORTED;
}

static void simt_touch(struct device *device, uint8_t *base, size_t bytes,
                       struct thread_pool *threads)
{
    (void)device, (void)base, (void)bytes, (void)threads;
}

static enum status simt_record(struct device *device, enum device_queue queue, uint64_t sequence)
{
    (void)device, (void)queue, (void)sequence;
    return STATUS_OK;
}

static enum status simt_after(struct device *device, enum device_queue queue,
                              struct device_ticket ticket)
{
    (void)device, (void)queue, (void)ticket;
    return STATUS_OK;
}

static enum status simt_completed(struct device *device, enum device_queue queue,
                                  uint64_t *sequence_out)
{
    *sequence_out = atomic_load_explicit(&device->n_recorded[queue], memory_order_acquire);
    return STATUS_OK;
}

static enum status simt_read(struct device *device, enum device_queue queue, const uint8_t *source,
                             size_t bytes, const uint8_t **view_out)
{
    (void)device, (void)queue;
    uint8_t *view = malloc(bytes);
    assert(view);
    memcpy(view, source, bytes);
    *view_out = view;
    return STATUS_OK;
}

static void simt_read_end(struct device *device, const uint8_t *view)
{
    (void)device;
    free((void *)(uintptr_t)view);
}

static enum status simt_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                    uint8_t **view_out)
{
    (void)device, (void)target;
    uint8_t *view = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert(view);
    memset(view, 0xff, bytes);
    *view_out = view;
    return STATUS_OK;
}

static enum status simt_write(struct device *device, enum device_queue queue, uint8_t *target,
                              uint8_t *view, size_t bytes)
{
    (void)device, (void)queue;
    memcpy(target, view, bytes);
    free(view);
    return STATUS_OK;
}

static void simt_write_drop(struct device *device, uint8_t *view)
{
    (void)device;
    free(view);
}

static enum status simt_digest(struct device *device, enum device_queue queue, const uint8_t *bytes,
                               size_t n_bytes, uint32_t *digest_out)
{
    (void)device, (void)queue;
    *digest_out = crc32c(0, bytes, n_bytes);
    return STATUS_OK;
}

static enum status simt_load(struct device *device, const struct device_image *image,
                             struct error *error)
{
    (void)device, (void)image, (void)error;
    return STATUS_OK; /* it is linked to this program */
}

static void keep(struct simt_graph *graph, uint32_t kernel, const struct device_shape *shape,
                 const void *parameters, size_t bytes)
{
    graph->launches = realloc(graph->launches, (graph->n_launches + 1) * sizeof *graph->launches);
    assert(graph->launches && bytes <= PARAMETER_BYTES_MAX);
    struct simt_launched *launched = &graph->launches[graph->n_launches++];
    *launched = (struct simt_launched){.kernel = kernel, .shape = *shape};
    memcpy(launched->parameters, parameters, bytes);
}

static enum status simt_device_launch(struct device *device, uint32_t kernel,
                                      const struct device_shape *shape, const void *parameters,
                                      size_t bytes)
{
    struct simt_device *simt = (struct simt_device *)device;
    simt->launches_digest = crc32c(simt->launches_digest, &kernel, sizeof kernel);
    simt->launches_digest = crc32c(simt->launches_digest, shape, sizeof *shape);
    simt->launches_digest = crc32c(simt->launches_digest, parameters, bytes);
    if (simt->capturing)
        keep(simt->capturing, kernel, shape, parameters, bytes);
    else
        simt_launch(kernel, shape, parameters, &simt->schedule);
    return STATUS_OK;
}

/* ---- graphs: launches that run again with the parameters of then ---- */

static enum status simt_capture_begin(struct device *device)
{
    struct simt_device *simt = (struct simt_device *)device;
    simt->capturing = calloc(1, sizeof *simt->capturing);
    assert(simt->capturing);
    return STATUS_OK;
}

static enum status simt_capture_end(struct device *device, struct device_graph **graph_out)
{
    struct simt_device *simt = (struct simt_device *)device;
    *graph_out = &simt->capturing->base;
    simt->capturing = NULL;
    return STATUS_OK;
}

static enum status simt_replay(struct device *device, struct device_graph *captured)
{
    struct simt_device *simt = (struct simt_device *)device;
    const struct simt_graph *graph = (const struct simt_graph *)captured;
    for (uint32_t i = 0; i < graph->n_launches; i++)
        simt_launch(graph->launches[i].kernel, &graph->launches[i].shape,
                    graph->launches[i].parameters, &simt->schedule);
    simt->n_replays++;
    return STATUS_OK;
}

static void simt_graph_destroy(struct device *device, struct device_graph *captured)
{
    (void)device;
    free(((struct simt_graph *)captured)->launches);
    free(captured);
}

static const struct device_ops SIMT_OPS = {
    .close = simt_close,
    .allocate = simt_allocate,
    .free = simt_free,
    .wrap = simt_wrap,
    .touch = simt_touch,
    .record = simt_record,
    .after = simt_after,
    .completed = simt_completed,
    .read = simt_read,
    .read_end = simt_read_end,
    .write_begin = simt_write_begin,
    .write = simt_write,
    .write_drop = simt_write_drop,
    .digest = simt_digest,
    .load = simt_load,
    .launch = simt_device_launch,
    .capture_begin = simt_capture_begin,
    .capture_end = simt_capture_end,
    .replay = simt_replay,
    .graph_destroy = simt_graph_destroy,
};

struct device *simt_device_open(const struct simt_options *options)
{
    struct simt_device *simt = calloc(1, sizeof *simt);
    assert(simt);
    simt->ops = SIMT_OPS;
    if (options->never_captures)
        simt->ops.capture_begin = NULL;
    simt->device.ops = &simt->ops;
    simt->device.name = "simt";
    simt->device.traits = (struct device_traits){
        .architecture = options->architecture ? options->architecture : 90,
        .n_processors = options->n_processors ? options->n_processors : 4,
        .shared_bytes_max = 227u << 10,
        .memory_bytes = 1ull << 30,
    };
    simt->schedule = (struct simt_schedule){
        .copies_late = options->copies_late,
        .seed = options->seed,
        .resident = options->resident,
        .cluster = options->cluster,
        .count_banks = options->count_banks,
        .only_bounds = options->only_bounds,
    };
    simt->device.wants_static_steps = options->wants_static_steps;
    simt->poisons = options->poisons;
    return &simt->device;
}

uint64_t simt_device_replays(const struct device *device)
{
    return ((const struct simt_device *)device)->n_replays;
}

uint32_t simt_device_launches(struct device *device)
{
    struct simt_device *simt = (struct simt_device *)device;
    const uint32_t digest = simt->launches_digest;
    simt->launches_digest = 0;
    return digest;
}

void simt_device_adopt(struct device *device, const void *base, size_t bytes)
{
    struct simt_device *simt = (struct simt_device *)device;
    struct simt_adopted *adopted = malloc(sizeof *adopted);
    assert(adopted);
    *adopted = (struct simt_adopted){base, simt->adopted};
    simt->adopted = adopted;
    simt_memory_add(base, bytes);
}
