/* layer: the kernels around attention and products give what the reference gives. */
#include "kernels/cuda/launch.h"
#include "tests/simt/simt_device.h"

#include <criterion/criterion.h>

Test(layer, add_adds_each_element_once)
{
    enum { N = 777 };
    struct device *device = simt_device_open(&(struct simt_options){0});
    struct error error = {""};
    struct device_memory memory;
    cr_assert_eq(device_load(device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(device_allocate(device, DEVICE_WORKSPACE, 2 * N * sizeof(float), &memory),
                 STATUS_OK);
    float *y = (float *)(void *)memory.base, *x = y + N;
    for (int i = 0; i < N; i++)
        y[i] = (float)i, x[i] = 0.5f;
    device_bind(device);
    const struct add_parameters parameters = {y, x, N};
    const struct device_shape shape = {{(N + 255) / 256, 1, 1}, 256, 0};
    cuda_launch(CUDA_add, &shape, &parameters);
    for (int i = 0; i < N; i++)
        cr_assert_eq(y[i], (float)i + 0.5f);
    device_bind(NULL);
    device_free(device, &memory);
    device_close(device);
}
