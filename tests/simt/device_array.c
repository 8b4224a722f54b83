#include "tests/simt/device_array.h"

#include "kernels/cuda/launch.h"

#include <criterion/criterion.h>
#include <string.h>

struct device *schedule_open(uint32_t schedule)
{
    const struct simt_options options = {.copies_late = schedule & 1,
                                         .seed = schedule & 2 ? 77 : 0};
    struct device *device = simt_device_open(&options);
    struct error error = {""};
    cr_assert_eq(device_load(device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    device_bind(device);
    return device;
}

void schedule_close(struct device *device)
{
    device_bind(NULL);
    device_close(device);
}

struct device_array device_array_at(struct device *device, size_t bytes, uint32_t offset)
{
    struct device_array array = {.device = device, .bytes = bytes};
    const size_t room = offset + bytes; /* the harness knows its end to the byte */
    cr_assert_eq(device_allocate(device, DEVICE_WORKSPACE, room ? room : 1, &array.memory),
                 STATUS_OK);
    memset(array.memory.base, 0xff, room);
    array.data = array.memory.base + offset;
    return array;
}

struct device_array device_array_create(struct device *device, size_t bytes)
{
    return device_array_at(device, bytes, 0);
}

void device_array_destroy(struct device_array *array)
{
    device_free(array->device, &array->memory);
    array->data = NULL;
}

float number_of(uint32_t seed, uint64_t index)
{
    uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u + seed * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (float)(int32_t)(x >> 40) * 0x1p-23f - 1;
}

struct device_array device_rows(struct device *device, enum dtype dtype, const uint32_t (*shape)[3],
                                uint32_t seed)
{
    const uint32_t n_rows = (*shape)[0], n = (*shape)[1], stride = (*shape)[2];
    struct device_array array = device_array_create(device,
                                                    (size_t)n_rows * stride * dtype_bytes(dtype));
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < n; i++)
            dtype_store(dtype, array.data, (size_t)r * stride + i,
                        number_of(seed, (uint64_t)r * n + i));
    return array;
}

bool is_poison(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)bytes)[i] != 0xff)
            return false;
    return true;
}
