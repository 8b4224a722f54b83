#include "model/kernel_choice.h"

#include "device/device.h"
#include "kernels/attention_backends.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"

#include <string.h>

bool kernel_choice_is_own(const struct device *device)
{
    return device && device_get_traits(device).architecture != 0;
}

bool kernel_choice_is_fast(const struct kernels *kernels)
{
    return kernels == &cuda_fast_kernels;
}

enum status kernel_choice_load(struct device *device, struct error *error)
{
    if (!kernel_choice_is_own(device))
        return STATUS_OK;
    return device_load(device, &cuda_image, error);
}

enum dtype kernel_choice_activations(const struct device *device)
{
    return kernel_choice_is_own(device) ? DTYPE_BF16 : DTYPE_F32;
}

/* Chooses an attention among the device's own. */
static enum status select_own(const char *name, const struct attention_backend **attention_out,
                              struct error *error)
{
    const struct attention_backend *attention = cuda_attention_named(name);
    if (!attention)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "no attention of a GPU is called '%s' (attention_kernels): cuda, "
                         "cuda_masked or cuda_reference",
                         name);
    *attention_out = attention;
    return STATUS_OK;
}

enum status kernel_choice_make(bool is_own, const char *cpu_kernels, const char *attention_kernels,
                               struct error *error, struct kernel_choice *choice_out)
{
    struct kernel_choice choice;
    const bool is_fast = is_own && cpu_kernels && strcmp(cpu_kernels, KERNEL_CHOICE_FAST) == 0;
    TRY(kernels_select(is_fast ? NULL : cpu_kernels, &choice.host, error));
    choice.products = is_fast ? &cuda_fast_kernels : is_own ? &cuda_kernels : choice.host;
    TRY(is_own
            ? select_own(attention_kernels, &choice.attention, error)
            : attention_backend_select(attention_kernels, choice.host, &choice.attention, error));
    *choice_out = choice;
    return STATUS_OK;
}
