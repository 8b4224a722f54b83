#include "device/cuda.h"

#include "base/log/log.h"
#include "device/cuda_ring.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIGNMENT        256u /* guaranteed by cuMemAlloc */
#define ARCHITECTURE_MIN 80u  /* of the kernels */

static _Atomic uint64_t n_opened;

/* ---- memory ---- */

static void say_no_memory(struct cuda_device *cuda, size_t bytes)
{
    size_t n_free = 0, n_all = 0;
    if (cuda->driver.cuMemGetInfo(&n_free, &n_all) != CUDA_CODE_SUCCESS)
        n_free = n_all = 0;
    log_error("%s: no memory for %zu bytes: %zu of %zu are free", cuda->name, bytes, n_free, n_all);
}

static enum status make_zero(struct cuda_device *cuda, cuda_address address, size_t bytes)
{
    CUDA_DO(cuda, cuMemsetD8Async, address, 0, bytes, cuda->start_stream);
    CUDA_DO(cuda, cuStreamSynchronize, cuda->start_stream);
    return STATUS_OK;
}

static enum status cuda_allocate(struct device *device, size_t bytes, uint8_t **base_out)
{
    struct cuda_device *cuda = cuda_of(device);
    cuda_address address = 0;
    TRY(cuda_make_current(cuda));
    cuda_code code = cuda->driver.cuMemAlloc(&address, bytes);
    if (code == CUDA_CODE_OUT_OF_MEMORY) {
        say_no_memory(cuda, bytes);
        return STATUS_NO_MEMORY;
    }
    TRY(cuda_judge(cuda, "cuMemAlloc", code));
    assert(address % ALIGNMENT == 0);
    TRY(make_zero(cuda, address, bytes)); /* lost: memory is not freed any more */
    *base_out = (uint8_t *)(uintptr_t)address;
    return STATUS_OK;
}

static enum status cuda_stage(struct device *device, uint8_t *base, size_t bytes)
{
    struct cuda_device *cuda = cuda_of(device);
    TRY(cuda_make_current(cuda));
    return cuda_ring_add_twin(cuda, &cuda->ring, base, bytes);
}

static void cuda_free(struct device *device, uint8_t *base, size_t bytes)
{
    struct cuda_device *cuda = cuda_of(device);
    (void)bytes;
    if (device_is_lost(device) || cuda_make_current(cuda) != STATUS_OK)
        return;
    cuda_ring_drop_twin(cuda, &cuda->ring, base);
    (void)cuda_judge(cuda, "cuMemFree", cuda->driver.cuMemFree((uintptr_t)base));
}

static enum status cuda_wrap(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device, (void)base, (void)bytes;
    return STATUS_UNSUPPORTED;
}

static enum status cuda_free_bytes(struct device *device, uint64_t *bytes_out)
{
    struct cuda_device *cuda = cuda_of(device);
    size_t n_free = 0, n_all = 0;
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuMemGetInfo, &n_free, &n_all);
    *bytes_out = n_free;
    return STATUS_OK;
}

static void cuda_touch(struct device *device, uint8_t *base, size_t bytes,
                       struct thread_pool *threads)
{
    (void)device, (void)base, (void)bytes, (void)threads; /* allocate wrote all of it */
}

/* ---- bytes ---- */

static enum status cuda_read(struct device *device, enum device_queue queue, const uint8_t *source,
                             size_t bytes, const uint8_t **view_out)
{
    struct cuda_device *cuda = cuda_of(device);
    uint8_t *view;
    assert(bytes <= DEVICE_VIEW_BYTES_MAX);
    TRY(cuda_make_current(cuda));
    if (queue == DEVICE_COMPUTE)
        TRY(cuda_ring_take_result(cuda, &cuda->ring, bytes, &view));
    else
        TRY(cuda_ring_take(cuda, &cuda->ring, NULL, bytes, &view));
    CUDA_DO(cuda, cuMemcpyDtoHAsync, view, (uintptr_t)source, bytes, cuda->queues[queue].stream);
    *view_out = view;
    return STATUS_OK;
}

static void cuda_give_view(struct device *device, const uint8_t *view)
{
    cuda_ring_give(&cuda_of(device)->ring, view);
}

static enum status cuda_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                    uint8_t **view_out)
{
    struct cuda_device *cuda = cuda_of(device);
    TRY(cuda_make_current(cuda));
    return cuda_ring_take(cuda, &cuda->ring, target, bytes, view_out);
}

static enum status cuda_write(struct device *device, enum device_queue queue, uint8_t *target,
                              uint8_t *view, size_t bytes)
{
    struct cuda_device *cuda = cuda_of(device);
    const cuda_stream stream = cuda->queues[queue].stream;
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuMemcpyHtoDAsync, (uintptr_t)target, view, bytes, stream);
    return cuda_ring_sent(cuda, &cuda->ring, view, stream);
}

static void cuda_write_drop(struct device *device, uint8_t *view)
{
    cuda_give_view(device, view);
}

/* ---- open and close ---- */

/* Also for half-built ones. Failures cannot be repaired. */
static void release(struct cuda_device *cuda)
{
    if (cuda->context && cuda->driver.cuCtxSetCurrent(cuda->context) == CUDA_CODE_SUCCESS) {
        for (enum device_queue queue = 0; queue < DEVICE_QUEUES; queue++)
            cuda_queue_destroy(cuda, &cuda->queues[queue]);
        cuda_ring_destroy(cuda, &cuda->ring);
        cuda_unload(cuda);
        if (cuda->start_stream)
            (void)cuda->driver.cuStreamDestroy(cuda->start_stream);
        (void)cuda->driver.cuCtxSetCurrent(NULL);
    }
    if (cuda->context)
        (void)cuda->driver.cuDevicePrimaryCtxRelease(cuda->ordinal);
    cuda_has_current(NULL);
    cuda_driver_close(&cuda->driver);
}

static void cuda_close(struct device *device)
{
    struct cuda_device *cuda = cuda_of(device);
    if (!device_is_lost(device))
        release(cuda);
    free(cuda->modules);
    free(cuda->functions);
    free(cuda);
}

static const struct device_ops CUDA_OPS = {
    .close = cuda_close,
    .allocate = cuda_allocate,
    .stage = cuda_stage,
    .free = cuda_free,
    .wrap = cuda_wrap,
    .touch = cuda_touch,
    .free_bytes = cuda_free_bytes,
    .record = cuda_record,
    .after = cuda_after,
    .completed = cuda_completed,
    .read = cuda_read,
    .read_end = cuda_give_view,
    .write_begin = cuda_write_begin,
    .write = cuda_write,
    .write_drop = cuda_write_drop,
    .digest = cuda_digest,
    .export_memory = cuda_export,
    .import_memory = cuda_import,
    .import_close = cuda_import_close,
    .copy = cuda_copy,
    .load = cuda_load,
    .launch = cuda_launch_kernel,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .replay = cuda_replay,
    .graph_destroy = cuda_graph_destroy,
    .products_open = cuda_products_open,
    .products_close = cuda_products_close,
    .plan_product = cuda_plan_product,
    .product = cuda_product,
};

static enum status find_gpu(struct cuda_device *cuda, uint32_t number, struct error *error)
{
    int n = 0;
    CUDA_TRY(cuda, error, cuDeviceGetCount, &n);
    if (number >= (uint32_t)n)
        return error_set(error, STATUS_NOT_FOUND,
                         "there is no GPU %" PRIu32 ": the driver has %d, counted from 0", number,
                         n);
    CUDA_TRY(cuda, error, cuDeviceGet, &cuda->ordinal, (int)number);
    return STATUS_OK;
}

static enum status attribute(struct cuda_device *cuda, enum cuda_constants which,
                             uint32_t *value_out, struct error *error)
{
    int value = 0;
    CUDA_TRY(cuda, error, cuDeviceGetAttribute, &value, which, cuda->ordinal);
    if (value < 0)
        return error_set(error, STATUS_UNSUPPORTED, "attribute %d of the GPU is %d", (int)which,
                         value);
    *value_out = (uint32_t)value;
    return STATUS_OK;
}

static enum status get_traits(struct cuda_device *cuda, struct error *error)
{
    struct device_traits *traits = &cuda->base.traits;
    uint32_t major = 0, minor = 0;
    size_t bytes = 0;
    TRY(attribute(cuda, CUDA_DEVICE_MAJOR, &major, error));
    TRY(attribute(cuda, CUDA_DEVICE_MINOR, &minor, error));
    TRY(attribute(cuda, CUDA_DEVICE_N_PROCESSORS, &traits->n_processors, error));
    TRY(attribute(cuda, CUDA_DEVICE_SHARED_BYTES_MAX, &traits->shared_bytes_max, error));
    CUDA_TRY(cuda, error, cuDeviceTotalMem, &bytes, cuda->ordinal);
    traits->architecture = 10 * major + minor;
    traits->memory_bytes = bytes;
    if (traits->architecture < ARCHITECTURE_MIN)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the GPU has compute capability %" PRIu32 ".%" PRIu32
                         ", the kernels need %u.%u or later",
                         major, minor, ARCHITECTURE_MIN / 10, ARCHITECTURE_MIN % 10);
    return STATUS_OK;
}

static enum status describe(struct cuda_device *cuda, struct error *error)
{
    char model[128] = "", driver[16];
    const struct device_traits *traits = &cuda->base.traits;
    CUDA_TRY(cuda, error, cuDeviceGetName, model, sizeof model, cuda->ordinal);
    snprintf(driver, sizeof driver, "%d.%d", cuda->driver.version / 1000,
             cuda->driver.version % 1000 / 10);
    log_event(LOG_INFO, NULL, "device open", LOG_TEXT("device", cuda->name),
              LOG_TEXT("model", model), LOG_U64("memory_bytes", traits->memory_bytes),
              LOG_U64("architecture", traits->architecture),
              LOG_U64("processors", traits->n_processors), LOG_TEXT("driver", driver));
    return STATUS_OK;
}

static enum status start(struct cuda_device *cuda, uint32_t number, struct error *error)
{
    TRY(cuda_driver_open(&cuda->driver, error));
    TRY(find_gpu(cuda, number, error));
    TRY(get_traits(cuda, error));
    cuda_code code = cuda->driver.cuDevicePrimaryCtxRetain(&cuda->context, cuda->ordinal);
    if (code != CUDA_CODE_SUCCESS)
        return cuda_fail(cuda, "a context of this process", "cuDevicePrimaryCtxRetain", code,
                         error);
    CUDA_TRY(cuda, error, cuCtxSetCurrent, cuda->context);
    cuda_has_current(cuda);
    CUDA_TRY(cuda, error, cuStreamCreate, &cuda->start_stream, CUDA_STREAM_NON_BLOCKING);
    for (enum device_queue queue = 0; queue < DEVICE_QUEUES; queue++)
        TRY(cuda_queue_create(cuda, &cuda->queues[queue], error));
    TRY(cuda_ring_create(cuda, &cuda->ring, error));
    cuda->base.n_views = CUDA_SMALL_SLOTS;
    return describe(cuda, error);
}

enum status cuda_open(uint32_t number, struct device **device_out, struct error *error)
{
    struct error cause = {""};
    struct cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a device");
    snprintf(cuda->name, sizeof cuda->name, "cuda:%" PRIu32, number);
    cuda->base.ops = &CUDA_OPS;
    cuda->base.name = cuda->name;
    cuda->base.wants_static_steps = true;
    cuda->id = atomic_fetch_add(&n_opened, 1) + 1;
    enum status status = start(cuda, number, &cause);
    if (status != STATUS_OK) {
        release(cuda);
        free(cuda);
        return error_set(error, status, "device cuda:%" PRIu32 ": %s", number, cause.text);
    }
    *device_out = &cuda->base;
    return STATUS_OK;
}
