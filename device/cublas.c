#include "device/cublas.h"

#include <dlfcn.h>
#include <string.h>

/* Entries are function pointers, dlsym returns object pointers; POSIX gives both the same
 * representation. */
static enum status take(const struct cublas *cublas, const char *name, void *entry_out,
                        struct error *error)
{
    void *entry = dlsym(cublas->library, name);
    if (!entry)
        return error_set(error, STATUS_UNSUPPORTED,
                         "device_math fast: the libcublasLt that was found has no %s", name);
    memcpy(entry_out, &entry, sizeof entry);
    return STATUS_OK;
}

/* The library stays in the process, as the driver does. */
enum status cublas_open(struct cublas *cublas_out, struct error *error)
{
    static const char *const NAMES[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    struct cublas cublas = {0};
    for (int i = 0; i < 2 && !cublas.library; i++)
        cublas.library = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cublas.library)
        return error_set(error, STATUS_UNSUPPORTED,
                         "device_math is fast, and there is no libcublasLt.so.13 or .12: %s",
                         dlerror());
#define X(name, arguments) TRY(take(&cublas, #name, &cublas.name, error));
    CUBLAS_CALLS(X)
#undef X
    *cublas_out = cublas;
    return STATUS_OK;
}
