#include "device/cuda_device.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct device_handle) == sizeof(struct cuda_ipc_handle), "");

/* A failure of another process or of the machine: this device does not depend on it. The next poll finds an error that
 * persists. */
static enum status refuse(const struct cuda_device *cuda, const char *call, cuda_code code,
                          struct error *error)
{
    (void)cuda_error(&cuda->driver, call, code, error);
    return STATUS_UNSUPPORTED;
}

enum status cuda_export(struct device *device, uint8_t *base, size_t bytes,
                        struct device_handle *handle_out, struct error *error)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_ipc_handle handle;
    assert(base && bytes % DEVICE_EXPORT_BYTES == 0);
    TRY(cuda_make_current(cuda));
    cuda_code code = cuda->driver.cuIpcGetMemHandle(&handle, (uintptr_t)base);
    if (code != CUDA_CODE_SUCCESS)
        return refuse(cuda, "cuIpcGetMemHandle", code, error);
    memcpy(handle_out, &handle, sizeof handle);
    return STATUS_OK;
}

/* The size of the memory. It must have been opened at its base. */
static enum status measure(const struct cuda_device *cuda, cuda_address address, size_t *bytes_out,
                           struct error *error)
{
    cuda_address base = 0;
    size_t bytes = 0;
    cuda_code code = cuda->driver.cuMemGetAddressRange(&base, &bytes, address);
    if (code != CUDA_CODE_SUCCESS)
        return refuse(cuda, "cuMemGetAddressRange", code, error);
    if (base != address || bytes == 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "what cuIpcOpenMemHandle opened is no whole allocation");
    *bytes_out = bytes;
    return STATUS_OK;
}

enum status cuda_import(struct device *device, const struct device_handle *handle,
                        struct device_mapping *mapping_out, struct error *error)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_ipc_handle theirs;
    cuda_address address = 0;
    memcpy(&theirs, handle, sizeof theirs);
    TRY(cuda_make_current(cuda));
    cuda_code code = cuda->driver.cuIpcOpenMemHandle(&address, theirs, CUDA_IPC_LAZY_PEER_ACCESS);
    if (code != CUDA_CODE_SUCCESS)
        return refuse(cuda, "cuIpcOpenMemHandle", code, error);
    struct device_mapping mapping = {.base = (uint8_t *)(uintptr_t)address};
    enum status status = measure(cuda, address, &mapping.bytes, error);
    if (status != STATUS_OK) {
        TRY(cuda_import_close(device, &mapping));
        return status;
    }
    *mapping_out = mapping;
    return STATUS_OK;
}

enum status cuda_import_close(struct device *device, const struct device_mapping *mapping)
{
    struct cuda_device *cuda = cuda_of(device);
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuIpcCloseMemHandle, (uintptr_t)mapping->base);
    return STATUS_OK;
}

enum status cuda_copy(struct device *device, enum device_queue number, uint8_t *target,
                      const uint8_t *source, size_t bytes)
{
    struct cuda_device *cuda = cuda_of(device);
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuMemcpyDtoDAsync, (uintptr_t)target, (uintptr_t)source, bytes,
            cuda->queues[number].stream);
    return STATUS_OK;
}
