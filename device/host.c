#include "device/host.h"

#include "base/crc32c.h"
#include "base/huge_memory.h"
#include "base/thread_pool.h"
#include "device/device_ops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (16ull << 20) /* that one thread touches at a time */

static void host_close(struct device *device)
{
    free(device);
}

static enum status host_allocate(struct device *device, size_t bytes, uint8_t **base_out)
{
    (void)device;
    uint8_t *base = huge_memory_map(bytes); /* touching a pool of 4 GiB takes a fifth of the time */
    if (!base)
        return STATUS_NO_MEMORY;
    *base_out = base;
    return STATUS_OK;
}

static void host_free(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device;
    huge_memory_unmap(base, bytes);
}

static enum status host_wrap(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device, (void)base, (void)bytes;
    return STATUS_OK;
}

struct area {
    volatile uint8_t *memory;
    size_t bytes, page_bytes;
};

static void touch_piece(void *arg, uint32_t index)
{
    const struct area *area = arg;
    size_t end = (size_t)(index + 1ull) * PIECE_BYTES;
    assert(index * PIECE_BYTES < area->bytes && "the last piece may be short, none is empty");
    if (end > area->bytes)
        end = area->bytes;
    for (size_t at = index * PIECE_BYTES; at < end; at += area->page_bytes)
        area->memory[at] = 0;
}

static void host_touch(struct device *device, uint8_t *base, size_t bytes,
                       struct thread_pool *threads)
{
    (void)device;
    struct area area = {base, bytes, (size_t)sysconf(_SC_PAGESIZE)};
    uint32_t n = (uint32_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    if (threads)
        thread_pool_run(threads, n, touch_piece, &area);
    for (uint32_t i = 0; !threads && i < n; i++)
        touch_piece(&area, i);
}

static enum status host_record(struct device *device, enum device_queue queue, uint64_t sequence)
{
    (void)device, (void)queue, (void)sequence;
    return STATUS_OK;
}

static enum status host_after(struct device *device, enum device_queue queue,
                              struct device_ticket ticket)
{
    (void)device, (void)queue, (void)ticket;
    return STATUS_OK; /* always done */
}

static enum status host_completed(struct device *device, enum device_queue queue,
                                  uint64_t *sequence_out)
{
    *sequence_out = atomic_load_explicit(&device->n_recorded[queue], memory_order_acquire);
    return STATUS_OK;
}

static enum status host_read(struct device *device, enum device_queue queue, const uint8_t *source,
                             size_t bytes, const uint8_t **view_out)
{
    (void)device, (void)queue, (void)bytes;
    *view_out = source;
    return STATUS_OK;
}

static void host_read_end(struct device *device, const uint8_t *view)
{
    (void)device, (void)view;
}

static enum status host_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                    uint8_t **view_out)
{
    (void)device, (void)bytes;
    *view_out = target;
    return STATUS_OK;
}

static enum status host_write(struct device *device, enum device_queue queue, uint8_t *target,
                              uint8_t *view, size_t bytes)
{
    (void)device, (void)queue, (void)bytes;
    assert(view == target && "who wrote there wrote to the target");
    (void)target, (void)view;
    return STATUS_OK;
}

static void host_write_drop(struct device *device, uint8_t *view)
{
    (void)device, (void)view;
}

static enum status host_digest(struct device *device, enum device_queue queue, const uint8_t *bytes,
                               size_t n_bytes, uint32_t *digest_out)
{
    (void)device, (void)queue;
    *digest_out = crc32c(0, bytes, n_bytes);
    return STATUS_OK;
}

static enum status host_copy(struct device *device, enum device_queue queue, uint8_t *target,
                             const uint8_t *source, size_t bytes)
{
    (void)device, (void)queue;
    memcpy(target, source, bytes);
    return STATUS_OK;
}

static const struct device_ops HOST_OPS = {
    .close = host_close,
    .allocate = host_allocate,
    .free = host_free,
    .wrap = host_wrap,
    .touch = host_touch,
    .record = host_record,
    .after = host_after,
    .completed = host_completed,
    .read = host_read,
    .read_end = host_read_end,
    .write_begin = host_write_begin,
    .write = host_write,
    .write_drop = host_write_drop,
    .digest = host_digest,
    .copy = host_copy,
};

enum status host_open(struct device **device_out)
{
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return STATUS_NO_MEMORY;
    device->ops = &HOST_OPS;
    device->name = "cpu";
    device->reads_host = true;
    *device_out = device;
    return STATUS_OK;
}
