/* Start, devices, contexts, and the table of entries. */
#include "double.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <unordered_map>

thread_local bool has_context;
pid_t owner;
static char primary_context; /* its address is the handle */

static int version()
{
    return static_cast<int>(setting("DOUBLE_VERSION", CUDA_DRIVER_VERSION));
}

int architecture()
{
    return static_cast<int>(setting("DOUBLE_ARCHITECTURE", 90));
}

static int shared_bytes_of_architecture()
{
    switch (architecture()) {
    case 80:
    case 87:
        return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
        return 99 * 1024;
    default:
        return 227 * 1024;
    }
}

int shared_bytes_max()
{
    return static_cast<int>(setting("DOUBLE_SHARED_BYTES", shared_bytes_of_architecture()));
}

static void at_exit(int status, void *)
{
    int end = finish(status);
    if (end == status)
        return; // what others have to do at an exit they do
    fflush(nullptr);
    _exit(end);
}

cuda_code cuInit(unsigned flags)
{
    return api("cuInit", no_init | no_context, [&] {
        if (flags)
            return CUDA_ERROR_INVALID_VALUE;
        if (setting("DOUBLE_DEVICES", 1) == 0)
            return CUDA_ERROR_NO_DEVICE;
        if (!initialised) {
            memory_start(static_cast<size_t>(setting("DOUBLE_MEMORY_MB", 1024)) << 20);
            if (!executor_start())
                return CUDA_ERROR_UNKNOWN;
            on_exit(at_exit, nullptr);
            start_ticking();
            initialised = true;
            owner = getpid();
        }
        return CUDA_SUCCESS;
    });
}

cuda_code cuDriverGetVersion(int *out)
{
    return api("cuDriverGetVersion", no_init | no_context,
               [&] { return *out = version(), CUDA_SUCCESS; });
}

cuda_code cuGetErrorName(cuda_code code, const char **out)
{
    static const struct {
        cuda_code code;
        const char *name;
    } names[] = {
#define CODE(name, value) {value, "CUDA_" #name},
#include "codes.list"
#undef CODE
    };
    *out = nullptr;
    for (auto &x : names)
        if (x.code == code)
            return *out = x.name, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

template <class F> static cuda_code with_device(const char *name, cuda_ordinal ordinal, F body)
{
    return api(name, no_context, [&] {
        if (ordinal)
            return CUDA_ERROR_INVALID_DEVICE;
        body();
        return CUDA_SUCCESS;
    });
}

cuda_code cuDeviceGetCount(int *n)
{
    return with_device("cuDeviceGetCount", 0, [&] { *n = 1; });
}

cuda_code cuDeviceGet(cuda_ordinal *ordinal, int number)
{
    return with_device("cuDeviceGet", number, [&] { *ordinal = 0; });
}

cuda_code cuDeviceGetName(char *name, int bytes, cuda_ordinal ordinal)
{
    return with_device("cuDeviceGetName", ordinal,
                       [&] { snprintf(name, static_cast<size_t>(bytes), "driver double (host)"); });
}

cuda_code cuDeviceTotalMem_v2(size_t *bytes, cuda_ordinal ordinal)
{
    return with_device("cuDeviceTotalMem", ordinal, [&] { *bytes = device_bytes_total(); });
}

cuda_code cuDeviceGetAttribute(int *value, unsigned attribute, cuda_ordinal ordinal)
{
    const std::unordered_map<unsigned, int> values = {
        {CUDA_DEVICE_N_PROCESSORS, N_PROCESSORS},
        {CUDA_DEVICE_MAJOR, architecture() / 10},
        {CUDA_DEVICE_MINOR, architecture() % 10},
        {CUDA_DEVICE_SHARED_BYTES_MAX, shared_bytes_max()},
    };
    auto it = values.find(attribute);
    if (it == values.end())
        unsupported("cuDeviceGetAttribute(%u)", attribute);
    return with_device("cuDeviceGetAttribute", ordinal, [&] { *value = it->second; });
}

cuda_code cuDevicePrimaryCtxRetain(cuda_context *context, cuda_ordinal ordinal)
{
    return with_device("cuDevicePrimaryCtxRetain", ordinal, [&] {
        primary_retained++;
        *context = reinterpret_cast<cuda_context>(&primary_context);
    });
}

cuda_code cuDevicePrimaryCtxRelease_v2(cuda_ordinal ordinal)
{
    return api("cuDevicePrimaryCtxRelease", no_context, [&] {
        if (ordinal || !primary_retained)
            return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_CONTEXT;
        if (--primary_retained == 0 &&
            !sticky) { /* everything of it goes too: forgotten is a leak */
            drain();
            for (auto &h : handles)
                report("leak", "%s, destroyed with the primary context", describe(h.first).c_str());
            handles.clear();
        }
        return CUDA_SUCCESS;
    });
}

cuda_code cuCtxSetCurrent(cuda_context context)
{
    return api("cuCtxSetCurrent", no_context, [&] {
        if (context && context != reinterpret_cast<cuda_context>(&primary_context))
            return CUDA_ERROR_INVALID_CONTEXT;
        has_context = context != nullptr;
        return CUDA_SUCCESS;
    });
}

cuda_code cuGetProcAddress_v2(const char *symbol, void **entry, int wanted, uint64_t flags,
                              uint32_t *result)
{
    static const struct {
        const char *name;
        int since; /* the version of the variant that is given */
        void *function;
    } table[] = {
#define X(name, since, exported, arguments) {#name, since, reinterpret_cast<void *>(exported)},
        CUDA_DRIVER_FIRST_CALLS(X) CUDA_DRIVER_CALLS(X)
#undef X
    };
    return api("cuGetProcAddress", no_init | no_context, [&] {
        if (!symbol || !entry || wanted > version() || flags)
            return CUDA_ERROR_INVALID_VALUE;
        *entry = nullptr;
        uint32_t found = 1; /* no such symbol: no error, by the text, look at *entry */
        for (auto &t : table)
            if (!strcmp(t.name, symbol)) {
                found = wanted >= t.since ? 0 : CUDA_SYMBOL_VERSION_NOT_SUFFICIENT;
                if (!found)
                    *entry = t.function;
            }
        if (result)
            *result = found;
        return CUDA_SUCCESS;
    });
}
