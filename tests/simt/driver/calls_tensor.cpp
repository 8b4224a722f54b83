/* Tensor maps: what the copy engine of sm_90 goes by. No entry of device/cuda_driver.h: only tests/gpu asks for it. */
#include "double.h"
#include "tests/simt/harness/engine.h"

#include <cstring>

extern "C" __attribute__((visibility("default"))) cuda_code
cuTensorMapEncodeTiled(void *map, unsigned dtype, uint32_t rank, void *base, const uint64_t *dims,
                       const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                       unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill)
{
    enum : unsigned { UINT16 = 1, SWIZZLE_128 = 3 };
    static const char call[] = "cuTensorMapEncodeTiled";
    return api(call, no_context, [&] {
        if (dtype != UINT16 || rank != 4 || interleave || swizzle != SWIZZLE_128 || promotion ||
            fill || box[0] != 64)
            unsupported("%s of other than 4 dimensions of 16 bits in rows of 128 bytes", call);
        if (reinterpret_cast<uintptr_t>(map) % 64 || reinterpret_cast<uintptr_t>(base) % 16)
            return CUDA_ERROR_INVALID_VALUE;
        simt::tensor_shape shape = {};
        shape.base = static_cast<const uint8_t *>(base);
        for (unsigned i = 0; i < 4; i++) {
            if (!dims[i] || !box[i] || box[i] > 256 || steps[i] != 1 || (i < 3 && strides[i] % 16))
                return CUDA_ERROR_INVALID_VALUE;
            shape.dims[i] = static_cast<uint32_t>(dims[i]);
            shape.box[i] = box[i];
            if (i < 3)
                shape.strides[i] = strides[i];
        }
        memset(map, 0, 128);
        memcpy(map, &shape, sizeof shape);
        return CUDA_SUCCESS;
    });
}
