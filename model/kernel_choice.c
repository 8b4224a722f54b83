#include "model/kernel_choice.h"

#include "device/device.h"
#include "kernels/attention_backends.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"

bool kernel_choice_is_own(const struct device *device)
{
    return device && device_get_traits(device).architecture != 0;
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

enum status kernel_choice_make(bool is_own, const char *cpu_kernels, const char *attention_kernels,
                               struct error *error, struct kernel_choice *choice_out)
{
    struct kernel_choice choice;
    (void)is_own;
    TRY(kernels_select(cpu_kernels, &choice.host, error));
    choice.products = choice.host;
    TRY(attention_backend_select(attention_kernels, choice.products, &choice.attention, error));
    *choice_out = choice;
    return STATUS_OK;
}
