/* Modules, functions, launches. */
#include "double.h"

#include <cstring>

static std::set<void *> functions;
enum : uint32_t { PARAMETER_BYTES_MAX = 4096 };

/* All kernels of the image, once. */
static const std::vector<KernelInfo> *image()
{
    static std::vector<KernelInfo> kernels;
    if (kernels.empty() && !executor_load(&kernels))
        return nullptr;
    return &kernels;
}

cuda_code cuModuleLoadData(cuda_module *out, const void *words)
{
    return api("cuModuleLoadData", unsafe, [&] {
        const size_t prefix = strlen(DOUBLE_MODULE_PREFIX);
        if (!words || memcmp(words, "\177ELF", 4) == 0 ||
            strncmp(static_cast<const char *>(words), DOUBLE_MODULE_PREFIX, prefix) != 0)
            return CUDA_ERROR_NO_BINARY_FOR_GPU; /* for another machine */
        const std::vector<KernelInfo> *kernels = image();
        if (!kernels)
            return CUDA_ERROR_INVALID_IMAGE;
        auto m = make("module", new Module);
        for (uint32_t i = 0; i < kernels->size(); i++) {
            const KernelInfo &info = (*kernels)[i];
            if (strcmp(info.module, static_cast<const char *>(words) + prefix) == 0)
                m->functions.push_back(new Function{info, i, 48 * 1024, false, false, {}});
        }
        *out = reinterpret_cast<cuda_module>(m);
        return CUDA_SUCCESS;
    });
}

cuda_code cuModuleUnload(cuda_module handle)
{
    return api("cuModuleUnload", unsafe, [&] {
        if (!handle || !is(handle, "module"))
            return CUDA_ERROR_INVALID_HANDLE;
        drain();
        for (Function *f : reinterpret_cast<Module *>(handle)->functions) {
            for (auto &last : f->last)
                if (!host_knows(*last.second)) {
                    report("early unload", "a module is unloaded, but nothing has waited for %s",
                           last.second->what().c_str());
                    break;
                }
            f->unloaded = true;
        }
        retire(handle);
        return CUDA_SUCCESS;
    });
}

cuda_code cuModuleGetFunction(cuda_function *out, cuda_module handle, const char *name)
{
    return api("cuModuleGetFunction", 0, [&] {
        if (!handle || !is(handle, "module"))
            return CUDA_ERROR_INVALID_HANDLE;
        for (Function *f : reinterpret_cast<Module *>(handle)->functions)
            if (!strcmp(f->info.name, name)) {
                functions.insert(f);
                *out = reinterpret_cast<cuda_function>(f);
                return CUDA_SUCCESS;
            }
        return CUDA_ERROR_NOT_FOUND;
    });
}

static Function *function_of(cuda_function handle)
{
    if (!functions.count(handle))
        return nullptr;
    auto f = reinterpret_cast<Function *>(handle);
    if (f->unloaded)
        report("bad handle", "function %s of an unloaded module", f->info.name);
    return f->unloaded ? nullptr : f;
}

cuda_code cuFuncLoad(cuda_function handle)
{
    return api("cuFuncLoad", unsafe, [&] {
        Function *f = function_of(handle);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        f->loaded = true;
        return CUDA_SUCCESS;
    });
}

/* Every kernel has one argument, a struct. */
cuda_code cuFuncGetParamInfo(cuda_function handle, size_t i, size_t *offset, size_t *bytes)
{
    return api("cuFuncGetParamInfo", 0, [&] {
        Function *f = function_of(handle);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        if (i > 0)
            return CUDA_ERROR_INVALID_VALUE;
        *offset = 0;
        *bytes = f->info.parameter_bytes;
        return CUDA_SUCCESS;
    });
}

cuda_code cuFuncGetAttribute(int *value, unsigned attribute, cuda_function handle)
{
    return api("cuFuncGetAttribute", 0, [&] {
        Function *f = function_of(handle);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        switch (attribute) {
        case CUDA_FUNCTION_THREADS_MAX:
            return *value = static_cast<int>(f->info.threads), CUDA_SUCCESS;
        case CUDA_FUNCTION_SHARED_BYTES:
            return *value = 0, CUDA_SUCCESS;
        case CUDA_FUNCTION_DYNAMIC_SHARED_MAX:
            return *value = f->dynamic_shared_max, CUDA_SUCCESS;
        default:
            unsupported("cuFuncGetAttribute(%u)", attribute);
        }
    });
}

cuda_code cuFuncSetAttribute(cuda_function handle, unsigned attribute, int value)
{
    return api("cuFuncSetAttribute", 0, [&] {
        Function *f = function_of(handle);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        if (attribute != CUDA_FUNCTION_DYNAMIC_SHARED_MAX)
            unsupported("cuFuncSetAttribute(%u)", attribute);
        if (value < 0 || value > shared_bytes_max())
            return CUDA_ERROR_INVALID_VALUE;
        f->dynamic_shared_max = value;
        return CUDA_SUCCESS;
    });
}

/* What a driver refuses, said. */
static const char *wrong_with(const Function &f, const LaunchShape &shape, void **parameters)
{
    if (!shape.grid[0] || !shape.grid[1] || !shape.grid[2] || !shape.threads)
        return "a dimension is zero";
    if (shape.threads > 1024 || shape.grid[0] > 0x7fffffff || shape.grid[1] > 65535 ||
        shape.grid[2] > 65535)
        return "a dimension is over the device's limit";
    if (shape.threads > f.info.threads)
        return "more threads than its launch bounds";
    if (shape.shared_bytes > static_cast<size_t>(f.dynamic_shared_max))
        return "more dynamic shared memory than was allowed by cuFuncSetAttribute";
    if (f.info.parameter_bytes > PARAMETER_BYTES_MAX)
        return "more bytes of parameters than every driver takes";
    if (!f.loaded)
        return "it is loaded by its first launch, which takes memory and may not be captured: no "
               "cuFuncLoad";
    return parameters ? nullptr : "no parameters";
}

cuda_code cuLaunchKernel(cuda_function handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                         cuda_stream stream, void **parameters, void **extra)
{
    static const char call[] = "cuLaunchKernel";
    return api(call, 0, [&] {
        Function *f = function_of(handle);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        if (extra || block_y != 1 || block_z != 1)
            unsupported("%s with `extra`, or a block of more than one dimension", call);
        Work work;
        work.shape = {{grid_x, grid_y, grid_z}, block_x, shared};
        if (const char *why = wrong_with(*f, work.shape, parameters)) {
            report("bad launch", "%s(%s): %s", call, f->info.name, why);
            return CUDA_ERROR_INVALID_VALUE;
        }
        auto bytes = static_cast<const uint8_t *>(parameters[0]);
        work.kind = Work::kernel;
        work.call = call;
        work.function = f;
        work.parameters.assign(bytes, bytes + f->info.parameter_bytes);
        return submit(stream, work);
    });
}
