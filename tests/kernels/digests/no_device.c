/* no_device - what cases/run.c calls of a device; here no case has one. */
#include "device/device.h"

#include <stdlib.h>

enum status device_allocate(struct device *device, enum device_use use, size_t bytes,
                            struct device_memory *memory_out)
{
    (void)device, (void)use, (void)bytes, (void)memory_out;
    abort();
}

void device_free(struct device *device, struct device_memory *memory)
{
    (void)device, (void)memory;
    abort();
}

struct device_ticket device_record(struct device *device, enum device_queue queue)
{
    (void)device, (void)queue;
    abort();
}

enum status device_wait(struct device *device, struct device_ticket ticket)
{
    (void)device, (void)ticket;
    abort();
}

enum status device_write_begin(struct device *device, uint8_t *target, size_t bytes,
                               uint8_t **view_out)
{
    (void)device, (void)target, (void)bytes, (void)view_out;
    abort();
}

void device_write(struct device *device, enum device_queue queue, uint8_t *target, uint8_t *view,
                  size_t bytes)
{
    (void)device, (void)queue, (void)target, (void)view, (void)bytes;
    abort();
}

void device_write_drop(struct device *device, uint8_t *view)
{
    (void)device, (void)view;
    abort();
}
