#include "device/plan_device.h"

#include "device/device_ops.h"

#include <assert.h>
#include <stdlib.h>

#define ALIGNMENT 256u

struct plan_device {
    struct device base;
    struct device *of;
    uintptr_t next; /* an address that is never read */
};

static struct plan_device *plan_of(struct device *device)
{
    return (struct plan_device *)device; /* base is its first member */
}

static void plan_close(struct device *device)
{
    free(device);
}

/* The free memory of the real device, minus the memory that was counted here. */
static enum status plan_free_bytes(struct device *device, uint64_t *bytes_out)
{
    struct device *of = plan_of(device)->of;
    const uint64_t n_free = device_free_bytes(of), taken = device_bytes_taken(device);
    if (device_is_lost(of))
        return STATUS_DEVICE_LOST;
    *bytes_out = n_free > taken ? n_free - taken : 0;
    return STATUS_OK;
}

static enum status plan_allocate(struct device *device, size_t bytes, uint8_t **base_out)
{
    struct plan_device *plan = plan_of(device);
    uint64_t n_free;
    TRY(plan_free_bytes(device, &n_free));
    if (bytes > n_free)
        return STATUS_NO_MEMORY;
    *base_out = (uint8_t *)plan->next; /* NOLINT: a number */
    plan->next += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return STATUS_OK;
}

static void plan_free(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device, (void)base, (void)bytes;
}

static enum status plan_wrap(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device, (void)base, (void)bytes;
    return STATUS_UNSUPPORTED;
}

static void plan_touch(struct device *device, uint8_t *base, size_t bytes,
                       struct thread_pool *threads)
{
    (void)device, (void)base, (void)bytes, (void)threads;
}

static enum status plan_record(struct device *device, enum device_queue queue, uint64_t sequence)
{
    (void)device, (void)queue, (void)sequence;
    return STATUS_OK;
}

static enum status plan_after(struct device *device, enum device_queue queue,
                              struct device_ticket ticket)
{
    (void)device, (void)queue, (void)ticket;
    return STATUS_OK;
}

static enum status plan_completed(struct device *device, enum device_queue queue,
                                  uint64_t *sequence_out)
{
    *sequence_out = device->n_recorded[queue];
    return STATUS_OK;
}

static enum status plan_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                    uint8_t **view_out)
{
    (void)device, (void)target;
    *view_out = malloc(bytes);
    return *view_out ? STATUS_OK : STATUS_NO_MEMORY;
}

static void plan_write_drop(struct device *device, uint8_t *view)
{
    (void)device;
    free(view);
}

static enum status plan_write(struct device *device, enum device_queue queue, uint8_t *target,
                              uint8_t *view, size_t bytes)
{
    (void)queue, (void)target, (void)bytes;
    plan_write_drop(device, view);
    return STATUS_OK;
}

static const struct device_ops PLAN_OPS = {
    .close = plan_close,
    .allocate = plan_allocate,
    .free = plan_free,
    .wrap = plan_wrap,
    .touch = plan_touch,
    .free_bytes = plan_free_bytes,
    .record = plan_record,
    .after = plan_after,
    .completed = plan_completed,
    .write_begin = plan_write_begin,
    .write = plan_write,
    .write_drop = plan_write_drop,
};

enum status plan_device_open(struct device *of, struct device **device_out)
{
    struct plan_device *plan = calloc(1, sizeof *plan);
    assert(of && device_get_traits(of).architecture != 0);
    if (!plan)
        return STATUS_NO_MEMORY;
    plan->base.ops = &PLAN_OPS;
    plan->base.name = device_name(of);
    plan->base.traits = device_get_traits(of);
    plan->base.wants_static_steps = device_wants_static_steps(of);
    plan->of = of;
    plan->next = ALIGNMENT;
    *device_out = &plan->base;
    return STATUS_OK;
}
