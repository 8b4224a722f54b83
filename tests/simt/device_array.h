/*
 * device_array - arrays of a simt device that end at a guard page and start as poison, and the four schedules.
 */
#pragma once

#include "kernels/dtype.h"
#include "tests/simt/simt_device.h"

struct device_array {
    struct device *device;
    struct device_memory memory;
    void *data; /* the last bytes of memory, at a multiple of 16 less `offset` */
    size_t bytes;
};

#define SCHEDULES 4u
/* Copies early and late, threads in order and shuffled; bound to the thread, the image loaded. */
struct device *schedule_open(uint32_t schedule);
void schedule_close(struct device *device);

struct device_array device_array_create(struct device *device, size_t bytes);
/* The same with `offset` bytes (below 16) between the end and the guard page: another alignment. */
struct device_array device_array_at(struct device *device, size_t bytes, uint32_t offset);
void device_array_destroy(struct device_array *array);

/* [n_rows][stride] of which n elements are numbers around 0 by seed, the others NaN. */
struct device_array device_rows(struct device *device, enum dtype dtype, const uint32_t (*shape)[3],
                                uint32_t seed);
/* From -1 to 1, of few bits. */
float number_of(uint32_t seed, uint64_t index);
/* The bytes are still poison. */
bool is_poison(const void *bytes, size_t n);
