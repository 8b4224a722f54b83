#include "device/cuda_driver.h"

#include <assert.h>
#include <stddef.h>

enum status cuda_status(cuda_code code)
{
    switch (code) {
    case CUDA_CODE_SUCCESS:
        return STATUS_OK;
    case CUDA_CODE_NOT_READY:
        return STATUS_NOT_READY;
    case CUDA_CODE_OUT_OF_MEMORY:
        return STATUS_NO_MEMORY;
    case CUDA_CODE_NO_DEVICE:
    case CUDA_CODE_INVALID_DEVICE:
    case CUDA_CODE_STUB_LIBRARY: /* the toolkit's stub instead of a driver */
        return STATUS_NOT_FOUND;
    case CUDA_CODE_INVALID_IMAGE:
    case CUDA_CODE_NO_BINARY_FOR_GPU:
    case CUDA_CODE_INVALID_PTX:
    case CUDA_CODE_UNSUPPORTED_PTX_VERSION:
    case CUDA_CODE_JIT_COMPILER_NOT_FOUND:
    case CUDA_CODE_NOT_SUPPORTED:
    case CUDA_CODE_SYSTEM_DRIVER_MISMATCH:
    case CUDA_CODE_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return STATUS_UNSUPPORTED;
    default:
        return STATUS_DEVICE_LOST;
    }
}

enum status cuda_error(const struct cuda_driver *driver, const char *call, cuda_code code,
                       struct error *error)
{
    const char *name = NULL;
    assert(code != CUDA_CODE_SUCCESS);
    if (!driver->cuGetErrorName || driver->cuGetErrorName(code, &name) != CUDA_CODE_SUCCESS)
        name = NULL;
    return error_set(error, cuda_status(code), "%s failed: %s (%u)", call,
                     name ? name : "a code without a name", (unsigned)code);
}
