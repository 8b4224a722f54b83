#include "device/device_digest.h"
#include "kernels/cuda/launch.h"

/* device/ launches these two kernels by name, so the fields of both structs must match. */
#define SAME_FIELD(field)                                                                          \
    _Static_assert(offsetof(struct digest_parameters, field) ==                                    \
                       offsetof(struct device_digest_parameters, field),                           \
                   #field)
SAME_FIELD(bytes);
SAME_FIELD(n_bytes);
SAME_FIELD(partials);
SAME_FIELD(out);
SAME_FIELD(n_pieces);
_Static_assert(sizeof(struct digest_parameters) == sizeof(struct device_digest_parameters), "");
_Static_assert(DIGEST_THREADS == DEVICE_DIGEST_THREADS &&
                   DIGEST_SHARED_BYTES == DEVICE_DIGEST_SHARED_BYTES &&
                   DIGEST_PIECE_BYTES == DEVICE_DIGEST_PIECE_BYTES,
               "");

#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    _Static_assert(sizeof(struct parameters) <= CUDA_PARAMETER_BYTES_MAX && (threads) <= 1024,     \
                   #name);
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER

static const struct device_kernel kernels[CUDA_KERNELS] = {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    {#name, MODULE, threads, sizeof(struct parameters)},
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER
};

const struct device_image cuda_image = {
    .modules = cuda_modules,
    .kernels = kernels,
    .n_modules = CUDA_UNITS,
    .n_kernels = CUDA_KERNELS,
    .shared_bytes_max = CUDA_SHARED_BYTES_MAX,
};
