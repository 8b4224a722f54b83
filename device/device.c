#include "device/device.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "device/device_ops.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>

#define MIB (1 << 20)

const char *device_use_name(enum device_use use)
{
    static const char *const NAMES[DEVICE_USES] = {"kv", "activations", "staging", "weights",
                                                   "workspace"};
    assert((unsigned)use < DEVICE_USES);
    return NAMES[use];
}

void device_close(struct device *device)
{
    if (!device)
        return;
    for (enum device_use use = 0; use < DEVICE_USES; use++)
        assert(device_bytes(device, use) == 0 && "who allocated it frees it");
    device->ops->close(device);
}

const char *device_name(const struct device *device)
{
    return device->name;
}

bool device_reads_host(const struct device *device)
{
    return device->reads_host;
}

bool device_is_lost(const struct device *device)
{
    return atomic_load_explicit(&device->is_lost, memory_order_acquire);
}

bool device_wants_static_steps(const struct device *device)
{
    return device->wants_static_steps;
}

struct device_traits device_get_traits(const struct device *device)
{
    return device->traits;
}

/* The result of an operation. Only the first failure is logged: later ones are its consequence. */
static enum status judge(struct device *device, const char *operation, enum status status)
{
    bool is_passing = status == STATUS_OK || status == STATUS_QUEUE_FULL ||
                      status == STATUS_NO_MEMORY || status == STATUS_UNSUPPORTED;
    if (is_passing)
        return status;
    if (!atomic_exchange(&device->is_lost, true))
        log_event(LOG_ERROR, NULL, "device lost", LOG_TEXT("device", device->name),
                  LOG_TEXT("operation", operation), LOG_TEXT("why", status_text(status)));
    return STATUS_DEVICE_LOST;
}

/* ---- memory ---- */

static void count(struct device *device, const struct device_memory *memory)
{
    atomic_fetch_add_explicit(&device->bytes[memory->use], memory->bytes, memory_order_relaxed);
}

enum status device_allocate(struct device *device, enum device_use use, size_t bytes,
                            struct device_memory *memory_out)
{
    struct device_memory memory = {.bytes = bytes, .use = use};
    assert((unsigned)use < DEVICE_USES && bytes > 0 && !device->is_capturing);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    TRY(judge(device, "allocate", device->ops->allocate(device, bytes, &memory.base)));
    assert(memory.base && (uintptr_t)memory.base % 256 == 0);
    if (use == DEVICE_STAGING && device->ops->stage) {
        enum status status = judge(device, "stage", device->ops->stage(device, memory.base, bytes));
        if (status != STATUS_OK) {
            device->ops->free(device, memory.base, bytes);
            return status;
        }
    }
    count(device, &memory);
    *memory_out = memory;
    return STATUS_OK;
}

enum status device_wrap(struct device *device, enum device_use use, void *base, size_t bytes,
                        struct device_memory *memory_out)
{
    struct device_memory memory = {.base = base, .bytes = bytes, .use = use, .is_wrapped = true};
    assert((unsigned)use < DEVICE_USES && base && bytes > 0);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    TRY(judge(device, "wrap", device->ops->wrap(device, base, bytes)));
    count(device, &memory);
    *memory_out = memory;
    return STATUS_OK;
}

void device_touch(struct device *device, const struct device_memory *memory,
                  struct thread_pool *threads)
{
    assert(memory->base && memory->bytes > 0);
    if (!device_is_lost(device))
        device->ops->touch(device, memory->base, memory->bytes, threads);
}

void device_free(struct device *device, struct device_memory *memory)
{
    if (!memory->base)
        return;
    uint64_t before = atomic_fetch_sub(&device->bytes[memory->use], memory->bytes);
    assert(before >= memory->bytes && "freed is what was counted");
    (void)before;
    if (!memory->is_wrapped)
        device->ops->free(device, memory->base, memory->bytes);
    *memory = (struct device_memory){0};
}

uint64_t device_bytes(const struct device *device, enum device_use use)
{
    assert((unsigned)use < DEVICE_USES);
    return atomic_load_explicit(&device->bytes[use], memory_order_relaxed);
}

uint64_t device_bytes_taken(const struct device *device)
{
    uint64_t bytes = 0;
    for (enum device_use use = 0; use < DEVICE_USES; use++)
        bytes += device_bytes(device, use);
    return bytes;
}

uint64_t device_free_bytes(struct device *device)
{
    uint64_t bytes = 0;
    if (!device->ops->free_bytes)
        return UINT64_MAX;
    if (device_is_lost(device) ||
        judge(device, "free_bytes", device->ops->free_bytes(device, &bytes)) != STATUS_OK)
        return 0;
    assert(bytes <= device->traits.memory_bytes);
    return bytes;
}

static void format_bytes(uint64_t bytes, char text[32])
{
    if (bytes == 0)
        snprintf(text, 32, "more");
    else if (bytes < MIB)
        snprintf(text, 32, "%.1f KiB", (double)bytes / 1024);
    else
        snprintf(text, 32, "%.1f MiB", (double)bytes / MIB);
}

enum status device_no_memory(struct device *device, const char *what, uint64_t bytes,
                             struct error *error)
{
    const uint64_t n_free = device_free_bytes(device);
    char needed[32];
    format_bytes(bytes, needed);
    if (device_is_lost(device))
        return error_set(error, STATUS_DEVICE_LOST,
                         "%s was lost before it had memory for %s: the log says why",
                         device_name(device), what);
    if (n_free == UINT64_MAX)
        return error_set(error, STATUS_NO_MEMORY, "%s need %s of memory", what, needed);
    return error_set(error, STATUS_NO_MEMORY,
                     "%s need %s of %s, of which %.1f of %.1f MiB are free", what, needed,
                     device_name(device), (double)n_free / MIB,
                     (double)device->traits.memory_bytes / MIB);
}

/* ---- order ---- */

/* Something other than a launch is enqueued there, which a capture cannot keep. */
static void check_queue(const struct device *device, enum device_queue queue)
{
    assert((unsigned)queue < DEVICE_QUEUES);
    assert((queue != DEVICE_COMPUTE || !device->is_capturing) && "launches alone are captured");
    (void)device, (void)queue;
}

struct device_ticket device_record(struct device *device, enum device_queue queue)
{
    check_queue(device, queue);
    /* Counted first, so that a thread that sees the ticket also sees a count that includes it. */
    uint64_t sequence = atomic_fetch_add(&device->n_recorded[queue], 1) + 1;
    if (!device_is_lost(device))
        (void)judge(device, "record", device->ops->record(device, queue, sequence));
    return (struct device_ticket){queue, sequence};
}

/* A ticket always belongs to an existing record. */
static void check_ticket(const struct device *device, struct device_ticket ticket)
{
    assert((unsigned)ticket.queue < DEVICE_QUEUES);
    assert(ticket.sequence <= atomic_load(&device->n_recorded[ticket.queue]));
    (void)device, (void)ticket;
}

void device_after(struct device *device, enum device_queue queue, struct device_ticket ticket)
{
    check_ticket(device, ticket);
    check_queue(device, queue);
    if (ticket.sequence == 0 || ticket.queue == queue || device_is_lost(device))
        return;
    (void)judge(device, "after", device->ops->after(device, queue, ticket));
}

static uint64_t wait_limit(const struct device *device)
{
    return device->wait_limit_ns ? device->wait_limit_ns : DEVICE_WAIT_LIMIT_NS;
}

/* Whether polls for the record after completed have failed for longer than the two steps that may be in flight before
 * it. */
static bool is_stuck(struct device *device, enum device_queue queue, uint64_t completed)
{
    struct device_pending *pending = &device->pending[queue];
    const uint64_t now_ns = clock_now_ns();
    if (atomic_load(&pending->sequence) == completed + 1)
        return now_ns > atomic_load(&pending->since_ns) + 2 * wait_limit(device);
    atomic_store(&pending->since_ns, now_ns);
    atomic_store(&pending->sequence, completed + 1);
    return false;
}

enum status device_poll(struct device *device, struct device_ticket ticket)
{
    uint64_t completed = 0;
    check_ticket(device, ticket);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    if (ticket.sequence == 0)
        return STATUS_OK;
    TRY(judge(device, "poll", device->ops->completed(device, ticket.queue, &completed)));
    assert(completed <= atomic_load(&device->n_recorded[ticket.queue]) &&
           "done before it was asked for");
    if (completed >= ticket.sequence)
        return STATUS_OK;
    return is_stuck(device, ticket.queue, completed) ? judge(device, "poll", STATUS_TIMED_OUT)
                                                     : STATUS_NOT_READY;
}

enum status device_wait(struct device *device, struct device_ticket ticket)
{
    enum status status = device_poll(device, ticket);
    if (status != STATUS_NOT_READY)
        return status;
    uint64_t limit_ns = clock_now_ns() + wait_limit(device);
    while ((status = device_poll(device, ticket)) == STATUS_NOT_READY) {
        if (clock_now_ns() >= limit_ns)
            return judge(device, "wait", STATUS_TIMED_OUT);
        sched_yield();
    }
    return status;
}

void device_set_wait_limit(struct device *device, uint64_t limit_ns)
{
    device->wait_limit_ns = limit_ns > DEVICE_WAIT_LIMIT_NS ? limit_ns : DEVICE_WAIT_LIMIT_NS;
}

/* ---- bytes ---- */

uint32_t device_n_views(const struct device *device)
{
    return device->n_views;
}

enum status device_read(struct device *device, enum device_queue queue, const uint8_t *source,
                        size_t bytes, const uint8_t **view_out)
{
    assert(source && bytes > 0);
    check_queue(device, queue);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    return judge(device, "read", device->ops->read(device, queue, source, bytes, view_out));
}

void device_read_end(struct device *device, const uint8_t *view)
{
    assert(view);
    device->ops->read_end(device, view);
}

enum status device_write_begin(struct device *device, uint8_t *target, size_t bytes,
                               uint8_t **view_out)
{
    assert(target && bytes > 0);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    return judge(device, "write_begin", device->ops->write_begin(device, target, bytes, view_out));
}

void device_write(struct device *device, enum device_queue queue, uint8_t *target, uint8_t *view,
                  size_t bytes)
{
    assert(target && view && bytes > 0);
    check_queue(device, queue);
    if (device_is_lost(device))
        device->ops->write_drop(device, view);
    else
        (void)judge(device, "write", device->ops->write(device, queue, target, view, bytes));
}

void device_write_drop(struct device *device, uint8_t *view)
{
    assert(view);
    device->ops->write_drop(device, view);
}

void device_digest(struct device *device, enum device_queue queue, const uint8_t *bytes,
                   size_t n_bytes, uint32_t *digest_out)
{
    assert(bytes && n_bytes > 0 && digest_out);
    check_queue(device, queue);
    if (!device_is_lost(device))
        (void)judge(device, "digest",
                    device->ops->digest(device, queue, bytes, n_bytes, digest_out));
}

void device_copy(struct device *device, enum device_queue queue, uint8_t *target,
                 const uint8_t *source, size_t bytes)
{
    assert(target && source && bytes > 0 && device->ops->copy);
    check_queue(device, queue);
    if (!device_is_lost(device))
        (void)judge(device, "copy", device->ops->copy(device, queue, target, source, bytes));
}

/* ---- memory of another process ---- */

bool device_can_export(const struct device *device)
{
    return device->ops->export_memory;
}

/* OK: the device supports it. */
static enum status check_export(const struct device *device, struct error *error)
{
    if (!device_can_export(device))
        return error_set(error, STATUS_UNSUPPORTED,
                         "device %s has no memory that another process can map", device->name);
    if (device_is_lost(device))
        return error_set(error, STATUS_DEVICE_LOST, "%s is lost", device->name);
    return STATUS_OK;
}

enum status device_export(struct device *device, const struct device_memory *memory,
                          struct device_handle *handle_out, struct error *error)
{
    TRY(check_export(device, error));
    assert(memory->base && !memory->is_wrapped && memory->bytes % DEVICE_EXPORT_BYTES == 0);
    return judge(
        device, "export",
        device->ops->export_memory(device, memory->base, memory->bytes, handle_out, error));
}

enum status device_import(struct device *device, const struct device_handle *handle,
                          struct device_mapping *mapping_out, struct error *error)
{
    struct device_mapping mapping = {0};
    TRY(check_export(device, error));
    TRY(judge(device, "import", device->ops->import_memory(device, handle, &mapping, error)));
    assert(mapping.base && mapping.bytes > 0);
    *mapping_out = mapping;
    return STATUS_OK;
}

void device_import_close(struct device *device, struct device_mapping *mapping)
{
    if (mapping->base && !device_is_lost(device))
        (void)judge(device, "import_close", device->ops->import_close(device, mapping));
    *mapping = (struct device_mapping){0};
}

/* ---- kernels ---- */

static _Thread_local struct device *bound;

void device_bind(struct device *device)
{
    bound = device;
}

struct device *device_bound(void)
{
    return bound;
}

enum status device_load(struct device *device, const struct device_image *image,
                        struct error *error)
{
    assert(!device->image && "once");
    if (!device->ops->load)
        return error_set(error, STATUS_UNSUPPORTED, "%s loads no kernels", device->name);
    if (device_is_lost(device))
        return error_set(error, STATUS_DEVICE_LOST, "%s is lost", device->name);
    TRY(judge(device, "load", device->ops->load(device, image, error)));
    device->image = image;
    return STATUS_OK;
}

void device_launch(struct device *device, uint32_t kernel, const struct device_shape *shape,
                   const void *parameters, size_t bytes)
{
    assert(device->image && kernel < device->image->n_kernels);
    assert(bytes == device->image->kernels[kernel].parameter_bytes);
    assert(shape->grid[0] > 0 && shape->grid[1] > 0 && shape->grid[2] > 0);
    assert(shape->grid[0] <= INT32_MAX && shape->grid[1] <= DEVICE_GRID_MAX &&
           shape->grid[2] <= DEVICE_GRID_MAX);
    assert(shape->threads > 0 && shape->threads <= device->image->kernels[kernel].threads);
    assert(shape->shared_bytes <= device->traits.shared_bytes_max);
    if (!device_is_lost(device))
        (void)judge(device, "launch",
                    device->ops->launch(device, kernel, shape, parameters, bytes));
}

/* ---- graphs ---- */

bool device_captures(const struct device *device)
{
    return device->ops->capture_begin;
}

void device_capture_begin(struct device *device)
{
    assert(device_captures(device) && !device->is_capturing);
    device->is_capturing = true;
    if (!device_is_lost(device))
        (void)judge(device, "capture_begin", device->ops->capture_begin(device));
}

enum status device_capture_end(struct device *device, struct device_graph **graph_out)
{
    struct device_graph *graph = NULL;
    assert(device->is_capturing);
    device->is_capturing = false;
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    TRY(judge(device, "capture_end", device->ops->capture_end(device, &graph)));
    assert(graph);
    atomic_fetch_add_explicit(&device->bytes[DEVICE_WORKSPACE], graph->bytes, memory_order_relaxed);
    *graph_out = graph;
    return STATUS_OK;
}

void device_replay(struct device *device, struct device_graph *graph)
{
    assert(graph);
    check_queue(device, DEVICE_COMPUTE);
    if (!device_is_lost(device))
        (void)judge(device, "replay", device->ops->replay(device, graph));
}

void device_graph_destroy(struct device *device, struct device_graph *graph)
{
    if (!graph)
        return;
    uint64_t before = atomic_fetch_sub(&device->bytes[DEVICE_WORKSPACE], graph->bytes);
    assert(before >= graph->bytes && "destroyed is what was counted");
    (void)before;
    device->ops->graph_destroy(device, graph);
}

/* ---- matrix products with a library ---- */

enum status device_open_products(struct device *device, struct error *error)
{
    if (!device->ops->products_open)
        return error_set(error, STATUS_UNSUPPORTED,
                         "device_math is fast, and there is no library of products for device %s",
                         device->name);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    return judge(device, "open_products", device->ops->products_open(device, error));
}

void device_close_products(struct device *device)
{
    if (device->ops->products_close)
        device->ops->products_close(device);
}

enum status device_plan_product(struct device *device, const struct device_product *product,
                                struct error *error)
{
    assert(product->n_tokens > 0 && product->n_in > 0 && product->n_out > 0);
    if (device_is_lost(device))
        return STATUS_DEVICE_LOST;
    return judge(device, "plan_product", device->ops->plan_product(device, product, error));
}

bool device_multiply(struct device *device, const struct device_product *product)
{
    assert(product->n_tokens > 0 && product->x_stride >= product->n_in);
    return !device_is_lost(device) &&
           judge(device, "product", device->ops->product(device, product)) == STATUS_OK;
}
