#include "device/cuda_device.h"

#include "base/log/log.h"

#define MIB (1 << 20)

static _Thread_local uint64_t current; /* the device whose context this thread has; 0: none */

void cuda_has_current(const struct cuda_device *cuda)
{
    current = cuda ? cuda->id : 0;
}

enum status cuda_judge(struct cuda_device *cuda, const char *call, cuda_code code)
{
    struct error error = {""};
    if (code == CUDA_CODE_SUCCESS)
        return STATUS_OK;
    (void)cuda_error(&cuda->driver, call, code, &error);
    if (!atomic_exchange(&cuda->has_failed, true))
        log_error("%s: %s", cuda->name, error.text);
    return STATUS_DEVICE_LOST;
}

enum status cuda_make_current(struct cuda_device *cuda)
{
    if (current == cuda->id)
        return STATUS_OK;
    CUDA_DO(cuda, cuCtxSetCurrent, cuda->context);
    cuda_has_current(cuda);
    return STATUS_OK;
}

/* Free memory can only be read with a context. At start this process has no memory of the device yet. */
enum status cuda_say_room(struct cuda_device *cuda, enum status status, struct error *error)
{
    const struct error cause = *error;
    size_t n_free = 0, n_all = 0;
    if (status != STATUS_NO_MEMORY)
        return status;
    if (current != cuda->id || cuda->driver.cuMemGetInfo(&n_free, &n_all) != CUDA_CODE_SUCCESS)
        return error_set(error, status,
                         "%s; how much of its %.1f MiB is free is not known: end other processes "
                         "on it, or use another device",
                         cause.text, (double)cuda->base.traits.memory_bytes / MIB);
    return error_set(
        error, status,
        "%s; %.1f of %.1f MiB of %s are free: end other processes on it, or use another device",
        cause.text, (double)n_free / MIB, (double)n_all / MIB, cuda->name);
}

enum status cuda_fail(struct cuda_device *cuda, const char *what, const char *call, cuda_code code,
                      struct error *error)
{
    struct error cause = {""};
    enum status status = cuda_error(&cuda->driver, call, code, &cause);
    status = error_set(error, status, "%s%s%s", what ? what : "", what ? ": " : "", cause.text);
    return cuda_say_room(cuda, status, error);
}
