/* image_table: what the program holds of kernels for GPUs: one line a module (name, bytes), one a kernel (name, module,
 * threads of a CTA at most, bytes of its parameters). check.py compares it with what was compiled. */
#include "kernels/cuda/launch.h"

#include <stdio.h>

int main(void)
{
    for (uint32_t i = 0; i < cuda_image.n_modules; i++)
        printf("module %s %zu\n", cuda_image.modules[i].name, cuda_image.modules[i].bytes);
    for (uint32_t i = 0; i < cuda_image.n_kernels; i++) {
        const struct device_kernel *kernel = &cuda_image.kernels[i];
        printf("kernel %s %s %u %u\n", kernel->name, cuda_image.modules[kernel->module].name,
               kernel->threads, kernel->parameter_bytes);
    }
    return 0;
}
