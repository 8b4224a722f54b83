/*
 * hardware_sm90_host - the host's bodies of kernels/cuda/hardware_sm90.cuh, in its order.
 */
#pragma once

#include "harness/engine.h"

DEVICE void mbarrier_init(uint32_t barrier, uint32_t n_arrivals)
{
    simt::engine_init(barrier, n_arrivals);
}
DEVICE void mbarrier_publish()
{
}
DEVICE void mbarrier_expect(uint32_t barrier, uint32_t bytes)
{
    simt::engine_arrive(barrier, bytes);
}
DEVICE void mbarrier_arrive(uint32_t barrier)
{
    simt::engine_arrive(barrier, 0);
}
DEVICE uint32_t simt_swizzled(uint32_t address)
{
    return address ^ (address >> 7 & 7) << 4;
}
/* Element by element, in the name of the thread that makes it. */
DEVICE void simt_tensor_copy(const simt::tensor_copy &copy)
{
    const simt::tensor_shape &shape = *copy.shape;
    uint32_t target = copy.target;
    for (uint32_t i = 0; i < simt::engine_bytes(shape) / 2; i++, target += 2) {
        uint32_t rest = i, is_outside = 0;
        const uint8_t *source = shape.base;
        for (uint32_t k = 0; k < 4; rest /= shape.box[k++]) {
            const int32_t at = copy.at[k] + (int32_t)(rest % shape.box[k]);
            is_outside |= at < 0 || (uint32_t)at >= shape.dims[k];
            source += (int64_t)at * (int64_t)(k ? shape.strides[k - 1] : 2);
        }
        const uint16_t value = is_outside ? 0 : *(const uint16_t *)source;
        *(uint16_t *)simt::shared_pointer(simt_swizzled(target), 2) = value;
    }
    simt::engine_complete(copy.barrier, simt::engine_bytes(shape));
}
DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    simt::tensor_copy copy;
    for (uint32_t looks = 0; !simt::engine_look(barrier, parity); looks++)
        if (looks > 2 && simt::engine_take(barrier, &copy))
            simt_tensor_copy(copy);
}
DEVICE void tensor_load(uint32_t target, const struct tensor_map *map, uint32_t barrier,
                        const int32_t (&at)[4])
{
    const simt::tensor_shape *shape = (const simt::tensor_shape *)(const void *)map;
    const simt::tensor_copy copy = {target,  barrier, shape, {at[0], at[1], at[2], at[3]},
                                    nullptr, 0};
    if (target % 128 || shape->box[0] * 2 != 128)
        simt::report(
            "a tensor copy of rows of %u bytes to %u of shared memory: here they are of 128, "
            "at a multiple of it",
            shape->box[0] * 2, target);
    if (!simt::are_copies_late())
        return simt_tensor_copy(copy);
    memset(simt::shared_pointer(target, 16), 0xff, simt::engine_bytes(*shape));
    simt::engine_ask(copy);
}
DEVICE void publish_smem_to_async()
{
}
template <int N> DEVICE void registers_give()
{
}
template <int N> DEVICE void registers_take()
{
}
DEVICE uint64_t wgmma_operand(uint32_t address, uint32_t panel_bytes, uint32_t rows_bytes)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(panel_bytes >> 4) << 16 |
           (uint64_t)(rows_bytes >> 4) << 32 | 1ull << 62;
}
DEVICE void wgmma_begin()
{
}
DEVICE void wgmma_commit()
{
    simt::products_commit();
}
template <int N> DEVICE void wgmma_wait()
{
    simt::products_wait(N);
}
template <int N> DEVICE void wgmma_keep(float (&d)[N])
{
    asm volatile("" ::"r"(d) : "memory");
}
DEVICE void wgmma_shared(float (&d)[32], uint64_t a, uint64_t b, bool accumulates)
{
    simt::products_ask({d, nullptr, a, b, 64, false, accumulates});
}
DEVICE void wgmma_shared(float (&d)[64], uint64_t a, uint64_t b, bool accumulates)
{
    simt::products_ask({d, nullptr, a, b, 128, false, accumulates});
}
DEVICE void wgmma_shared(float (&d)[128], uint64_t a, uint64_t b, bool accumulates)
{
    simt::products_ask({d, nullptr, a, b, 256, false, accumulates});
}
DEVICE void wgmma_registers(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulates)
{
    simt::products_ask({d, a, 0, b, 128, true, accumulates});
}
DEVICE void wgmma_narrow(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulates)
{
    simt::products_ask({d, a, 0, b, 64, false, accumulates});
}
