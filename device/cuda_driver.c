#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

#define MAJOR(version) ((version) / 1000)
#define MINOR(version) ((version) % 1000 / 10)

/* Entries are function pointers, dlsym and cuGetProcAddress return object pointers; POSIX gives both the same
 * representation. */
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "");

static enum status take_first(struct cuda_driver *driver, struct error *error)
{
    void *entry;
#define X(name, since, exported, arguments)                                                        \
    entry = dlsym(driver->library, #exported);                                                     \
    memcpy(&driver->name, &entry, sizeof entry);
    CUDA_DRIVER_FIRST_CALLS(X)
#undef X
    if (!driver->cuDriverGetVersion)
        return error_set(error, STATUS_UNSUPPORTED,
                         LIBRARY " is not an NVIDIA driver: it has no %s", "cuDriverGetVersion");
    return STATUS_OK;
}

static enum status check_version(struct cuda_driver *driver, struct error *error)
{
    cuda_code code = driver->cuDriverGetVersion(&driver->version);
    if (code != CUDA_CODE_SUCCESS)
        return cuda_error(driver, "cuDriverGetVersion", code, error);
    if (driver->version < CUDA_DRIVER_VERSION || !driver->cuGetProcAddress)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "the NVIDIA driver is too old: it has CUDA %d.%d, and the kernels need %d.%d or later",
            MAJOR(driver->version), MINOR(driver->version), MAJOR(CUDA_DRIVER_VERSION),
            MINOR(CUDA_DRIVER_VERSION));
    return STATUS_OK;
}

/* For an unknown name it returns SUCCESS with a null pointer. */
static enum status take_entry(const struct cuda_driver *driver, const char *name, int version,
                              void *entry_out, struct error *error)
{
    void *entry = NULL;
    uint32_t result = 0;
    cuda_code code = driver->cuGetProcAddress(name, &entry, version, 0, &result);
    if (code != CUDA_CODE_SUCCESS)
        return cuda_error(driver, "cuGetProcAddress", code, error);
    if (!entry)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the NVIDIA driver (CUDA %d.%d) has no %s of version %d",
                         MAJOR(driver->version), MINOR(driver->version), name, version);
    memcpy(entry_out, &entry, sizeof entry);
    return STATUS_OK;
}

static enum status take_entries(struct cuda_driver *driver, struct error *error)
{
#define X(name, since, exported, arguments)                                                        \
    TRY(take_entry(driver, #name, since, &driver->name, error));
    CUDA_DRIVER_CALLS(X)
#undef X
    return STATUS_OK;
}

/* This process has nothing on a device yet, so no device is lost: the machine just has no usable GPU. */
static enum status initialise(const struct cuda_driver *driver, struct error *error)
{
    struct error cause = {""};
    const cuda_code code = driver->cuInit(0);
    if (code == CUDA_CODE_SUCCESS)
        return STATUS_OK;
    if (code == CUDA_CODE_NO_DEVICE)
        return error_set(error, STATUS_NOT_FOUND, "there is an NVIDIA driver, but no GPU");
    const enum status status = cuda_error(driver, "cuInit", code, &cause);
    return error_set(error, status == STATUS_NOT_FOUND ? status : STATUS_UNSUPPORTED,
                     "there is an NVIDIA driver, but no GPU that can be used: %s", cause.text);
}

static enum status start(struct cuda_driver *driver, struct error *error)
{
    TRY(take_first(driver, error));
    TRY(check_version(driver, error));
    TRY(take_entries(driver, error));
    return initialise(driver, error);
}

enum status cuda_driver_open(struct cuda_driver *driver_out, struct error *error)
{
    struct cuda_driver driver = {.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!driver.library)
        return error_set(error, STATUS_NOT_FOUND, "there is no NVIDIA driver: %s", dlerror());
    enum status status = start(&driver, error);
    if (status != STATUS_OK)
        cuda_driver_close(&driver);
    else
        *driver_out = driver;
    return status;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    if (driver->library)
        dlclose(driver->library);
    *driver = (struct cuda_driver){0};
}
