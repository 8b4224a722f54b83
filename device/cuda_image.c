#include "base/log/log.h"
#include "device/cuda_device.h"
#include "device/device_digest.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status load_module(struct cuda_device *cuda, const struct device_module *module,
                               cuda_module *module_out, struct error *error)
{
    if (!module->image)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: this build has no kernels for CUDA: module %s is empty (preset cuda "
                         "compiles them)",
                         cuda->name, module->name);
    cuda_code code = cuda->driver.cuModuleLoadData(module_out, module->image);
    if (code == CUDA_CODE_SUCCESS)
        return STATUS_OK;
    char what[128];
    snprintf(what, sizeof what, "%s: module %s for sm_%" PRIu32 ", of %zu bytes", cuda->name,
             module->name, cuda->base.traits.architecture, module->bytes);
    return cuda_fail(cuda, what, "cuModuleLoadData", code, error);
}

/* The kernel must have one argument of that size: asking for a second one fails. */
static enum status check_parameters(struct cuda_device *cuda, const struct device_kernel *kernel,
                                    cuda_function function, struct error *error)
{
    size_t offset = 0, bytes = 0;
    CUDA_TRY(cuda, error, cuFuncGetParamInfo, function, 0, &offset, &bytes);
    if (offset != 0 || bytes != kernel->parameter_bytes)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: kernel %s takes %zu bytes of parameters, the program has %" PRIu32,
                         cuda->name, kernel->name, bytes, kernel->parameter_bytes);
    cuda_code code = cuda->driver.cuFuncGetParamInfo(function, 1, &offset, &bytes);
    if (code == CUDA_CODE_SUCCESS)
        return error_set(error, STATUS_UNSUPPORTED, "%s: kernel %s takes a second argument",
                         cuda->name, kernel->name);
    return code == CUDA_CODE_INVALID_VALUE
               ? STATUS_OK
               : cuda_error(&cuda->driver, "cuFuncGetParamInfo", code, error);
}

/* Raises the limits of a CTA, so that all launches are allowed. */
static enum status check_limits(struct cuda_device *cuda, const struct device_kernel *kernel,
                                cuda_function function, struct error *error)
{
    int threads = 0, shared = 0;
    const int most = (int)cuda->base.traits.shared_bytes_max;
    CUDA_TRY(cuda, error, cuFuncGetAttribute, &threads, CUDA_FUNCTION_THREADS_MAX, function);
    if (threads < (int)kernel->threads)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: kernel %s runs with %d threads at most, the program wants %" PRIu32,
                         cuda->name, kernel->name, threads, kernel->threads);
    CUDA_TRY(cuda, error, cuFuncGetAttribute, &shared, CUDA_FUNCTION_SHARED_BYTES, function);
    if (shared > most)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: kernel %s has %d bytes of shared memory, the GPU %d", cuda->name,
                         kernel->name, shared, most);
    CUDA_TRY(cuda, error, cuFuncSetAttribute, function, CUDA_FUNCTION_DYNAMIC_SHARED_MAX,
             most - shared);
    return STATUS_OK;
}

/* Loads everything now: a driver that loads a kernel at its first launch may not do so during a capture, and would
 * allocate device memory then. */
static enum status load_function(struct cuda_device *cuda, const struct device_kernel *kernel,
                                 cuda_function function, struct error *error)
{
    cuda_code code = cuda->driver.cuFuncLoad(function);
    if (code == CUDA_CODE_SUCCESS)
        return STATUS_OK;
    char what[128];
    snprintf(what, sizeof what, "%s: kernel %s", cuda->name, kernel->name);
    return cuda_fail(cuda, what, "cuFuncLoad", code, error);
}

static enum status take_function(struct cuda_device *cuda, const struct device_kernel *kernel,
                                 cuda_function *function_out, struct error *error)
{
    cuda_code code = cuda->driver.cuModuleGetFunction(function_out, cuda->modules[kernel->module],
                                                      kernel->name);
    if (code == CUDA_CODE_NOT_FOUND)
        return error_set(error, STATUS_UNSUPPORTED, "%s: the image has no kernel %s", cuda->name,
                         kernel->name);
    if (code != CUDA_CODE_SUCCESS)
        return cuda_error(&cuda->driver, "cuModuleGetFunction", code, error);
    TRY(load_function(cuda, kernel, *function_out, error));
    TRY(check_parameters(cuda, kernel, *function_out, error));
    return check_limits(cuda, kernel, *function_out, error);
}

static bool find_kernel(const struct device_image *image, const char *name, uint32_t *index_out)
{
    uint32_t i = 0;
    while (i < image->n_kernels && strcmp(image->kernels[i].name, name) != 0)
        i++;
    *index_out = i;
    return i < image->n_kernels;
}

static void find_digest(struct cuda_device *cuda, const struct device_image *image)
{
    cuda->has_digest = find_kernel(image, DEVICE_DIGEST_KERNEL, &cuda->digest_kernel) &&
                       find_kernel(image, DEVICE_DIGEST_COMBINE, &cuda->digest_combine);
    assert(!cuda->has_digest || image->kernels[cuda->digest_kernel].parameter_bytes ==
                                    sizeof(struct device_digest_parameters));
}

enum status cuda_load(struct device *device, const struct device_image *image, struct error *error)
{
    struct cuda_device *cuda = cuda_of(device);
    assert(!cuda->modules && image->n_modules > 0 && image->n_kernels > 0);
    if (image->shared_bytes_max > cuda->base.traits.shared_bytes_max)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: kernels take %" PRIu32
                         " bytes of shared memory, a CTA of this GPU has %" PRIu32,
                         cuda->name, image->shared_bytes_max, cuda->base.traits.shared_bytes_max);
    TRY(cuda_make_current(cuda));
    cuda->modules = calloc(image->n_modules, sizeof(cuda_module));
    cuda->functions = calloc(image->n_kernels, sizeof(cuda_function));
    if (!cuda->modules || !cuda->functions)
        return error_set(error, STATUS_NO_MEMORY, "%s: no memory for %" PRIu32 " kernels",
                         cuda->name, image->n_kernels);
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && cuda->n_modules < image->n_modules;
         cuda->n_modules += status == STATUS_OK)
        status = load_module(cuda, &image->modules[cuda->n_modules],
                             &cuda->modules[cuda->n_modules], error);
    for (uint32_t i = 0; status == STATUS_OK && i < image->n_kernels; i++)
        status = take_function(cuda, &image->kernels[i], &cuda->functions[i], error);
    if (status != STATUS_OK) {
        cuda_unload(cuda);
        return status;
    }
    find_digest(cuda, image);
    log_info("%s: %" PRIu32 " kernels loaded", cuda->name, image->n_kernels);
    return STATUS_OK;
}

void cuda_unload(struct cuda_device *cuda)
{
    for (uint32_t i = 0; i < cuda->n_modules; i++)
        (void)cuda->driver.cuModuleUnload(cuda->modules[i]);
    cuda->n_modules = 0;
    free(cuda->modules);
    free(cuda->functions);
    cuda->modules = NULL;
    cuda->functions = NULL;
}

enum status cuda_launch_on(struct cuda_device *cuda, cuda_stream stream, uint32_t kernel,
                           const struct device_shape *shape, const void *parameters)
{
    void *arguments[] = {(void *)(uintptr_t)parameters}; /* the driver copies them */
    CUDA_DO(cuda, cuLaunchKernel, cuda->functions[kernel], shape->grid[0], shape->grid[1],
            shape->grid[2], shape->threads, 1, 1, shape->shared_bytes, stream, arguments, NULL);
    return STATUS_OK;
}

enum status cuda_launch_kernel(struct device *device, uint32_t kernel,
                               const struct device_shape *shape, const void *parameters,
                               size_t bytes)
{
    struct cuda_device *cuda = cuda_of(device);
    assert(bytes == device->image->kernels[kernel].parameter_bytes);
    (void)bytes;
    TRY(cuda_make_current(cuda));
    return cuda_launch_on(cuda, cuda->queues[DEVICE_COMPUTE].stream, kernel, shape, parameters);
}
